"""State machines that take event after event."""
