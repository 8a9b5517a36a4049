"""Divide a plan: the survey of the app, execution groups, and how instances share events."""
