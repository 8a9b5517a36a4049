"""Trial of a plan on a few events, in a process of its own.

`python -m siddhi.trial` reads a request from standard input and writes the answer to standard output, both JSON
(`messages`).
"""
