"""`cep doctor`: what is wrong with a system, found by looking at it from outside."""
