"""Patterns and sequences.

Three operators run them: `chain` handles the common forms, `compiled` every form in one compiled loop, and `machine`
the rest, event by event. `build` selects the fastest that applies.
"""
