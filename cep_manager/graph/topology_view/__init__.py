"""A plan's running topology as its page shows it: summary, windows, stages, instances, connections."""
