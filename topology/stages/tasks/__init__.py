"""Tasks: the loop that feeds component instances, and the task's conversations with manager and driver."""
