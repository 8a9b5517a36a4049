"""What all pattern operators use: partial matches, slot references, conditions and the limit of matches."""
