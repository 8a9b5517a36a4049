"""What every process of the system shares: ids, messages and their codec, configuration, clock, errors, transport."""
