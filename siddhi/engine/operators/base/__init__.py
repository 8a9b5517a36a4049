"""The interface of operators, and common code."""
