"""Shared infrastructure: the event loop, metrics and error tracking."""
