"""How the engine would run a plan, told in a process of its own, as trials are: `python -m topology.plan_explanation`
reads a request from standard input and writes the answer to standard output, both JSON (`messages`)."""
