"""The components of a plan: its elements, their names and members, error streams and event bindings."""
