"""What workers have set aside of plans that are missing: asked of all of them."""
