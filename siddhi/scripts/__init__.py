"""Languages in which apps define functions of their own."""
