"""Commands that help to write and try plans."""
