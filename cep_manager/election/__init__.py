"""Leader election among managers."""
