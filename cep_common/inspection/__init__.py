"""What a process shows of itself to a manager: its newest log records, its configuration, and its state."""
