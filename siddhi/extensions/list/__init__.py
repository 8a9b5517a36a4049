"""The `list:` extension pack."""
