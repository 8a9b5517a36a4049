"""Decide which strings of filtered streams are read together with the rest of an event.

Reading a string with the rest costs little, and reading it later costs several times as much; but each string read
stays in the app's pool for a while, and the strings of filtered events would never be requested. So the demand is
measured repeatedly:

    rows that came    │ 256: only what is requested │ 16,384: strings of every row, if a quarter was requested │ 256 …
"""

from __future__ import annotations

from collections.abc import Iterable

from siddhi.engine.tuning import STRING_DEMAND_HOLD_ROWS, STRING_DEMAND_ONE_IN, STRING_DEMAND_PROBE_ROWS


class StringDemand:
    """`in_demand` are those of the attributes `names` whose strings are read for every row; none at first."""

    def __init__(self, names: Iterable[str]) -> None:
        """Create the record of which texts are needed.

        Args:
            names: The text attributes.
        """
        self.in_demand: frozenset[str] = frozenset()
        self._asked = dict.fromkeys(names, 0)
        self._came = 0

    def asked(self, name: str, rows: int) -> None:
        """Record that strings of this many rows were requested that had not been read.

        Other attributes are ignored.
        """
        if name in self._asked:
            self._asked[name] += rows

    def came(self, rows: int) -> bool:
        """Count `rows` more rows; return whether `in_demand` has changed."""
        self._came += rows
        if self._came < (STRING_DEMAND_HOLD_ROWS if self.in_demand else STRING_DEMAND_PROBE_ROWS):
            return False
        before = self.in_demand
        if before:
            self.in_demand = frozenset()
        else:
            worth = (name for name, asked in self._asked.items() if STRING_DEMAND_ONE_IN * asked >= self._came)
            self.in_demand = frozenset(worth)
        self._asked = dict.fromkeys(self._asked, 0)
        self._came = 0
        return self.in_demand != before
