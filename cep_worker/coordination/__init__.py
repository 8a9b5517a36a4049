"""The worker towards managers: heartbeats, commands, and the status that it reports."""
