"""From batches of columns to record batches."""
