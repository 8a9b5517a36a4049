"""The manager: registry of processes, deployment and status of plans, the console and the REST API."""
