"""Links between the plans of a worker: shared event streams, and the topics of `inMemory` sinks and sources."""
