"""The built-in aggregate functions and their state."""
