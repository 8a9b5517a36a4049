"""Declarations in plans: streams, connectors, and options from the worker's configuration."""
