"""Pictures of plans and of the system that are sent to whoever watches, as they change."""
