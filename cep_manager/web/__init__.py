"""The web application: REST API, console, Storm API, Prometheus metrics."""
