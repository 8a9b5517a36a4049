"""Who may speak to whom, and how that is kept."""
