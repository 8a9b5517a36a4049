"""The rules of distribution, one function each: a survey or a syntax tree goes in, findings come out."""
