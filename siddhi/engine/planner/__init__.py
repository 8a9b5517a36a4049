"""Choose the operators of a query, and explain the choice and its cost."""
