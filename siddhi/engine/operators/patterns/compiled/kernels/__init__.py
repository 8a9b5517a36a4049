"""The compiled loop of state machines and its parts."""
