"""Declare, compile and cache numba kernels."""
