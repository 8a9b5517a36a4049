"""From record batches to batches of columns."""
