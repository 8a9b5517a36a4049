"""A window and the selection behind it, computed in one loop."""
