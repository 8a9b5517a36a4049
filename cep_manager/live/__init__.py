"""Live views of plans and of the system, sent to viewers as they change."""
