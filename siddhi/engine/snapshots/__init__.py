"""Save the state of an app, part by part, and restore it."""
