"""Explains how the engine would run a plan, in a separate process.

As for trials, `python -m topology.plan_explanation` reads a request from standard input and writes the answer to
standard output, both as JSON (`messages`).
"""
