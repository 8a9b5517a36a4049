"""Convert record batches to batches of columns."""
