"""What an edit of a plan would keep of its state, told in a process of its own, as trials are: `python -m
topology.edit_preview` reads a request from standard input and writes the answer to standard output, both JSON
(`messages`)."""
