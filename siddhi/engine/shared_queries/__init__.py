"""Queries over one stream as rules that share work: an index over their conditions tells whom an event concerns."""
