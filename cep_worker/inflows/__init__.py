"""Imported streams on their way to receiver stages: batching, watermarks, links, and the log of accepted events."""
