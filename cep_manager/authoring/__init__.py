"""Help for authors of plans: language reference, definitions in a text, preview and trial."""
