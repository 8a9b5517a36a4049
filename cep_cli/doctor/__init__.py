"""`cep doctor`: diagnose a system from outside."""
