"""Files that the processes of one node of a two-node system share: the node's role and the state of its mirror.

The manager writes `role.json` and the worker `mirror.json`, both in the node's folder.
"""
