"""Events from outside: submitted batches, links of clients, routing to inflows, and rate limits."""
