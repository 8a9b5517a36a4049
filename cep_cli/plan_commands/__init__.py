"""Commands that deploy and change plans."""
