"""The two nodes of a two-node system: who is in sync, and what this node may do.

agent > view
"""
