"""The `json:` extension pack."""
