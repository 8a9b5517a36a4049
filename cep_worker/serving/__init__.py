"""The plans that the worker serves: inflows, outflows and prepared results, and orphaned events of missing plans."""
