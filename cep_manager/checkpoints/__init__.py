"""Checkpoints and savepoints: commands and views."""
