"""Carry the state of an app over to an edited app, or to another number of instances."""
