"""The state of component instances: checkpointing, restoring, rescaling, moving and querying it."""
