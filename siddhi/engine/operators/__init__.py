"""The operators of queries: filters, windows, joins, patterns, aggregates, tables, partitions and rate limits."""
