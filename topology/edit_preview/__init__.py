"""What an edit of a plan would keep of its state, computed in a process of its own.

As for trials, `python -m topology.edit_preview` reads a request from standard input and writes the answer to standard
output, both JSON (`messages`).
"""
