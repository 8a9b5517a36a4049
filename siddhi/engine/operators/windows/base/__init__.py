"""The interface of windows, and their common parts."""
