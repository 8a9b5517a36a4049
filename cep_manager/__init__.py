"""The manager: who is alive, what is deployed, how it fares; and the console and REST API that show it."""
