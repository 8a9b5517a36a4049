"""Mappers: events as bodies of some format, and back."""
