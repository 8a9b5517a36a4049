"""The mappers of sinks: events → bodies."""
