"""Random apps and events, played in several ways that must give the same answers: see `differential.run`."""
