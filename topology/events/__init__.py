"""Events inside a topology: bundles of record batches, their form on the wire, their order and their conversion."""
