"""Decisions of the driver: life cycle of topologies, placement on stage hosts, and fencing of managers. Pure."""
