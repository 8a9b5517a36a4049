"""What all parts run on: the event loop, metrics and error tracking."""
