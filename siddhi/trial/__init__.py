"""Try a plan on a few events, in a separate process.

`python -m siddhi.trial` reads a request from standard input and writes the answer to standard output, both JSON
(`messages`).
"""
