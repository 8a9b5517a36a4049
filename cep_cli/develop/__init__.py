"""Commands for writing and testing plans."""
