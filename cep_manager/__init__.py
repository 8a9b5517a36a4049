"""The manager: who is alive, what is deployed and its status, with the console and REST API that show it."""
