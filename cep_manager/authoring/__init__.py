"""What helps people to write plans: what the language has, what a text defines, what it would become, what it does."""
