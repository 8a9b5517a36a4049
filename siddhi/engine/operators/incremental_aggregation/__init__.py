"""Incremental aggregations: events summed up by group and by second, minute, hour, day, month and year."""
