"""The driver's side of checkpoints: when they begin, which parts are missing, and what is retained."""
