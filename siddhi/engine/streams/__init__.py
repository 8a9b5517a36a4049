"""The streams of a running app: who feeds and reads them, and the clock that their events drive."""
