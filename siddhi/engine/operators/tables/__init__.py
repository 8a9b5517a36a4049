"""In-memory tables: indexes, lookups and writes."""
