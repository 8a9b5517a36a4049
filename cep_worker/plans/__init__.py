"""The declarations of plans: their streams, connectors, and the options that they leave to the configuration."""
