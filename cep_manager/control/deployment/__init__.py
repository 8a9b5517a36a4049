"""How plans start, change, move their state, drain and end."""
