"""Intake of events: submitted batches, links of clients, routing to inflows, and rate limits."""
