"""The `reorder:` extension pack."""
