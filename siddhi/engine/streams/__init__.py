"""The streams of a running app: their producers and readers, and the clock that their events drive."""
