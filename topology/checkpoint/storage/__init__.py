"""Storage of checkpoints: chunks of state in folders, object stores or databases, and their manifests."""
