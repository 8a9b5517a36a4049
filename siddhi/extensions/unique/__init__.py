"""The `unique:` extension pack."""
