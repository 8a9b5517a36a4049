"""The web server and web client that all processes share, and the health endpoints."""
