"""Which manager leads."""
