"""Batches, columns, the string pool, stores of rows, and state as trees of arrays."""
