"""A short form of `make chaos`: some faults at a system under load, and nothing is lost, wrong or there twice."""

from __future__ import annotations

from pathlib import Path

import pytest
from chaos_faults import FAULTS
from chaos_run import Chaos
from two_hosts import NoSecondHostError

pytestmark = [pytest.mark.spark, pytest.mark.cluster]

KINDS = ("stage killed", "worker killed", "manager killed")


def test_faults_under_load_lose_nothing_and_nothing_comes_twice(tmp_path: Path) -> None:
    kinds = tuple(fault for fault in FAULTS if fault.kind in KINDS)
    chaos = Chaos(faults=len(KINDS), seed=1, delivery="exactly-once", folder=tmp_path / "chaos", kinds=kinds)
    try:
        outcome = chaos.run()
    except NoSecondHostError as error:
        pytest.skip(f"no second host can be simulated here: {error}")
    assert outcome.sent > 100
    assert set(outcome.times_s) == set(KINDS)
    found = outcome.verdict
    assert (found.lost, found.duplicated, found.wrong) == (0, 0, ())
