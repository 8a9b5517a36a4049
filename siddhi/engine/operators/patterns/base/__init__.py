"""The common parts of all pattern operators: partial matches, slot references, conditions and the limit of matches."""
