"""Patterns and sequences.

Three operators answer them: `chain` for the common forms, `compiled` for every form in one compiled loop, and `machine`
event by event for what the others cannot answer. `build` takes the fastest one that fits.
"""
