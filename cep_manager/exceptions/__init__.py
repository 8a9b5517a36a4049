"""Errors of plans and processes: what is remembered of them, and how it is told."""
