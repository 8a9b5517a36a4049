"""Which operators run a query, why faster ones do not, and what they cost."""
