"""Finds kinds of queries that run much slower than others, or event by event."""
