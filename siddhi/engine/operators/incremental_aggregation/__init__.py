"""Incremental aggregations: events aggregated by group and by second, minute, hour, day, month and year."""
