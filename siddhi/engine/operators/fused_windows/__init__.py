"""Run a window and the following selection in one loop."""
