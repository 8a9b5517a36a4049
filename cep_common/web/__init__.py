"""The web server, the web client and the health endpoints that all processes share."""
