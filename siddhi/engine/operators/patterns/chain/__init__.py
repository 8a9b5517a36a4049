"""Chains of plain elements, processed in whole batches."""
