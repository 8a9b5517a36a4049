"""What a run of faults must not overlook, without a system: a feeder that failed, a late result, a kind misspelt."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import chaos_run
import pytest
from chaos_faults import FAULTS, of_kinds
from chaos_feeder import Feeder, close_all
from chaos_ledger import Ledger
from chaos_plans import PLANS
from chaos_run import Chaos

PASSED = tuple(plan for plan in PLANS if plan.name == "Passed")


class IdleFeeder(Feeder):
    """Sends nothing until `close`."""

    def run(self) -> None:
        self._closing.wait()


class FailedFeeder(Feeder):
    """Ends at once."""

    def run(self) -> None:
        self.problem = "no memory"


def test_a_feeder_that_failed_before_the_end_fails_the_run() -> None:
    feeders = {"worker-1": IdleFeeder("worker-1", "", ""), "worker-2": FailedFeeder("worker-2", "", "")}
    for feeder in feeders.values():
        feeder.start()
    feeders["worker-2"].join()
    with pytest.raises(RuntimeError, match="feeders have failed: worker-2: no memory"):
        close_all(feeders)
    assert not feeders["worker-1"].is_alive()


def test_results_do_not_count_as_flowing_without_load(tmp_path: Path) -> None:
    feeder = FailedFeeder("worker-1", "", "")
    feeder.start()
    feeder.join()
    progress: Any = None
    with pytest.raises(RuntimeError, match="feeders have failed: worker-1: no memory"):
        Chaos(1, 1, "exactly-once", tmp_path, plans=PASSED)._flowing_since_s(progress, {"worker-1": feeder})


def test_a_feeder_that_sent_until_the_end_is_closed() -> None:
    feeder = IdleFeeder("worker-1", "", "")
    feeder.start()
    close_all({"worker-1": feeder})
    assert not feeder.is_alive()


class RepeatingChaos(Chaos):
    """Its one result comes again when nothing is missing any more."""

    looks = 0

    def results(self, system: Any, plan: str) -> list[dict[str, Any]]:
        self.looks += 1
        return [{"key": "k", "number": 1}] * min(self.looks, 2)


def test_a_result_that_comes_again_after_all_have_come_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chaos_run, "LINGER_S", 0.5)
    ledger = Ledger()
    ledger.accepted["k"].append(1)
    chaos = RepeatingChaos(1, 1, "exactly-once", tmp_path, plans=PASSED)
    system: Any = None
    (verdict,) = chaos._settled(system, ledger, ledger)
    assert (verdict.lost, verdict.duplicated) == (0, 1)


def test_a_kind_of_fault_that_does_not_exist_is_refused() -> None:
    assert of_kinds(FAULTS, ()) == FAULTS
    assert [one.kind for one in of_kinds(FAULTS, {"driver hung", "stage killed"})] == ["stage killed", "driver hung"]
    with pytest.raises(ValueError, match="no such kinds of faults: clocks; there are: stage killed, "):
        of_kinds(FAULTS, {"clocks", "stage killed"})


def test_a_run_that_is_told_to_end_leaves_its_contexts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: None)  # the warm-up
    before = signal.getsignal(signal.SIGTERM)
    try:
        chaos_run.prepare()
        with pytest.raises(SystemExit):
            os.kill(os.getpid(), signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
