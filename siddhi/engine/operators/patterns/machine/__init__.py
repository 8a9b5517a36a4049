"""State machines that process one event after the other."""
