"""Events by hand: which event streams there are, what passes on them now, and sending some."""
