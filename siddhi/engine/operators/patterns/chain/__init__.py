"""Chains of plain elements, whole batches at a time."""
