"""The `str:` extension pack."""
