"""The built-in stream functions."""
