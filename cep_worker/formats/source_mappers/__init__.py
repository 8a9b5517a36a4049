"""The mappers of sources: bodies → record batches."""
