"""The leader's history of reports: errors, counters, checkpoints, samples. Pure."""
