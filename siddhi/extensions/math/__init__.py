"""The `math:` extension pack."""
