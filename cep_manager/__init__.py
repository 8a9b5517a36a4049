"""The manager: which processes are up, what is deployed and its status, with the console and REST API that show it."""
