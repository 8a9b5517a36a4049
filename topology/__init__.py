"""Topologies: the running form of a query plan, its stages, and how events move between them."""
