"""The logs and configurations of all processes, read through the manager."""
