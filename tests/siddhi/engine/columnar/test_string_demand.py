"""Strings behind a filter are read ahead while many of them are requested, which is measured repeatedly."""

from __future__ import annotations

from siddhi.engine.ingest.string_demand import StringDemand
from siddhi.engine.tuning import STRING_DEMAND_HOLD_ROWS, STRING_DEMAND_PROBE_ROWS


def _try(demand: StringDemand, asked: dict[str, int]) -> bool:
    for name, rows in asked.items():
        demand.asked(name, rows)
    assert not demand.came(STRING_DEMAND_PROBE_ROWS - 1)
    return demand.came(1)


def test_what_a_quarter_of_the_rows_is_asked_for_is_in_demand() -> None:
    demand = StringDemand(["often", "seldom", "never"])
    assert _try(
        demand,
        {
            "often": STRING_DEMAND_PROBE_ROWS // 4,
            "seldom": STRING_DEMAND_PROBE_ROWS // 4 - 1,
            "other": STRING_DEMAND_PROBE_ROWS,
        },
    )
    assert demand.in_demand == {"often"}


def test_what_is_in_demand_is_tried_again_after_a_while() -> None:
    demand = StringDemand(["name"])
    assert _try(demand, {"name": STRING_DEMAND_PROBE_ROWS})
    assert not demand.came(STRING_DEMAND_HOLD_ROWS - 1)
    assert demand.came(1)
    assert demand.in_demand == frozenset()
    assert not _try(demand, {"name": 1})
    assert demand.in_demand == frozenset()
    assert _try(demand, {"name": STRING_DEMAND_PROBE_ROWS})
