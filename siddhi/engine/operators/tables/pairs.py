"""Pairs of events and rows of a table."""

from __future__ import annotations

from typing import NamedTuple

from siddhi.engine.jit.arrays import Int64Array


class Pairs(NamedTuple):
    """Pairs of events and rows: event `probes[k]` meets the row at `places[k]`.

    They are ordered by event, and for each event in the order of the rows. With `whole`, `probes` is 0, 1, … to the
    last event.
    """

    probes: Int64Array
    places: Int64Array
    whole: bool = False
