"""Tasks: the loop that feeds component instances, and communication with the manager and the driver."""
