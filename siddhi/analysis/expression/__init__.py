"""Expressions: scopes, calls and types."""
