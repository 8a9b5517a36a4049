"""Take a few events from record batch to record batch in one call, where the whole way is known."""
