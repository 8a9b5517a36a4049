"""Compile typed expressions to nodes that compute whole columns."""
