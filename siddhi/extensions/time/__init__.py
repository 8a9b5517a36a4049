"""The `time:` extension pack."""
