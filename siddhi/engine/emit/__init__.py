"""Convert batches of columns to record batches."""
