"""The driver's side of checkpoints: when they begin, which parts are still missing, and what is kept."""
