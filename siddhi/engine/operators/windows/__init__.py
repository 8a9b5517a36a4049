"""The built-in windows."""
