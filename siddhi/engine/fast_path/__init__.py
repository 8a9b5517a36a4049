"""Process small batches from record batch to record batch in one call, if the whole path is known."""
