"""A running plan in Storm's terms: topology, components, executors."""
