"""The active node's copy of accepted events on the passive node.

folders, protection > sender, receiver > acknowledgements > standby
"""
