"""Data of missing plans that workers have set aside, collected from all workers."""
