"""How many instances the scaled stages of a plan have: loads, decisions, and their history."""
