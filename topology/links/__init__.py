"""Links: how events travel from one process to the next, in order, acknowledged, and within a window of credit."""
