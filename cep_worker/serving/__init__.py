"""The plans that the worker serves: their inflows, outflows and prepared results, and events left by missing plans."""
