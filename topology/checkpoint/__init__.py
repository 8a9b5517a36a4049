"""Checkpoints: what of a topology is stored, where, and who decides when."""
