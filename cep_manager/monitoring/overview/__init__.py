"""The system at a glance: alerts, metrics of plans, lists of plans."""
