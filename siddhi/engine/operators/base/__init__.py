"""The contract of operators, and what all of them use."""
