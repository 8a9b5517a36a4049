"""The worker's HTTP servers and REST interface."""
