"""Run steps through the graph of an app: the order of nodes, timers, failed events."""
