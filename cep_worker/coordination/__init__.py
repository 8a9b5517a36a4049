"""Communication with managers: heartbeats, commands, and the reported status."""
