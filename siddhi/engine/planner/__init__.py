"""Which operators run a query, why not faster ones, and what they cost."""
