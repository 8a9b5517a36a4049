"""What a process shows of itself when a manager asks: its newest log records, its configuration, and its state."""
