"""What a manager can read from a process: its newest log records, its configuration, and its state."""
