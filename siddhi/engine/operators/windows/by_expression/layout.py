"""The interface between the program of a window's expression and the loop that runs it."""

from __future__ import annotations

OWN, FIRST, LAST, AGGREGATE, CONSTANT = range(5)
"""The source of an input: the current event, the first or the last of the window, an aggregate, or a constant."""
SOURCE, NUMBER = range(2)
"""Columns of loads."""

FIRST_AGGREGATE, END_AGGREGATE, FIRST_LOAD, END_LOAD, FIRST_LINE, END_LINE, WHEN_TRUE, WHEN_FALSE = range(8)
"""Columns of sides."""
TRUE, FALSE = -1, -2
"""Instead of a following side: the result is true, or false."""

STREAMS, BATCHES = range(2)
"""Indexes of the settings: whether events of a batch are emitted at once, and whether the window is one of batches."""
