"""Checkpoints: alignment of markers, coordination, and storage."""
