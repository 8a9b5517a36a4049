"""What a process can tell about itself when a manager asks: its newest log records, and its configuration."""
