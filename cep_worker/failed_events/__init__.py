"""Events that could not be processed: kept on disk, listed, replayed and discarded."""
