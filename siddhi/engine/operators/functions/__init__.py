"""The built-in scalar functions."""
