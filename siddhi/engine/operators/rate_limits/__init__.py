"""The `output` clause: rate limits and snapshots of a query's results."""
