"""What the leader remembers of reports: errors, counters, checkpoints, samples. Pure."""
