"""Partitions: find the instance of each event, open and close instances."""
