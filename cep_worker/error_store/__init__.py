"""Events that could not be dealt with: kept on the worker's disk, to be looked at, replayed or discarded."""
