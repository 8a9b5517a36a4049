"""Previews which state an edit of a plan would keep, in a separate process.

As for trials, `python -m topology.edit_preview` reads a request from standard input and writes the answer to standard
output, both as JSON (`messages`).
"""
