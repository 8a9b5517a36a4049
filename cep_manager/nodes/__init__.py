"""The two nodes of a two-node system: which nodes are in sync, and what this node may do.

agent > view
"""
