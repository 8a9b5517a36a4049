"""A query plan in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from query_plan.explain import explain, hot_spots
from query_plan.xml import read_xml

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("name", ["RoomMonitor", "Sessions"])
def test_the_words_name_every_stage_and_how_it_is_fed(name: str) -> None:
    words = explain(read_xml((GOLDEN / f"{name}.xml").read_text(encoding="utf-8")))
    assert words + "\n" == (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")


def test_a_single_instance_between_parallel_stages_is_a_hot_spot() -> None:
    plan = read_xml((GOLDEN / "TradeAlerts.xml").read_text(encoding="utf-8"))
    assert list(hot_spots(plan)) == ["hot spot: core has one instance between bigTrades and publishFilter"]
    assert not list(hot_spots(read_xml((GOLDEN / "KnockOnDelays.xml").read_text(encoding="utf-8"))))
