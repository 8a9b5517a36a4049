"""Queries, partitions and aggregations: inputs, selections, outputs."""
