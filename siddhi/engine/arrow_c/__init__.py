"""Kernels that read and write Arrow's C data interface."""
