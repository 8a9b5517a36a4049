"""The `js:` extension pack."""
