"""The `map:` extension pack."""
