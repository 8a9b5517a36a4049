"""What plans declare: their streams, connectors, and the options that they leave to the configuration."""
