"""Starts, changes, state transfer, draining and removal of plans."""
