"""Routing of a stage's results: keys, instances, and the links to instances in other tasks."""
