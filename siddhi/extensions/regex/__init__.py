"""The `regex:` extension pack."""
