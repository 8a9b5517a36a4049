"""Rule sets: the plans of a folder, deployed, changed and removed in one operation."""
