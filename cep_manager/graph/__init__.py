"""Graphs of plans and topologies."""
