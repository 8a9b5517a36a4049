"""A plan's running topology as its page tells it: summary, windows, stages, instances, connections."""
