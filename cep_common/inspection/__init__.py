"""What a process shows by itself when a manager asks: its newest log records, its configuration, and its state."""
