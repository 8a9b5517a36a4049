"""Checkpoints: what is stored of a topology, where, and which process decides when."""
