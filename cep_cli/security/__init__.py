"""Commands on keys, tokens and users."""
