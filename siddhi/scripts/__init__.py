"""Script languages in which apps define functions."""
