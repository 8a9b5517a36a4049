"""The rules of distribution, one function each: the input is a survey or a syntax tree, the output findings."""
