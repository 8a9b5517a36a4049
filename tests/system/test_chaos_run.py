"""What a run of faults must not overlook, without a system: a feeder that failed, a late result, a kind misspelt."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
from pathlib import Path
from typing import Any

import chaos_files
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


def test_files_that_are_damaged_at_once_belong_to_different_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    files = [Path(f"/x/wal/worker-1/-1234/P{plan}/S/{name}") for plan in range(4) for name in ("a", "b", "c")]
    files.append(Path("/x/wal/worker-1/worker.json"))
    chance = random.Random(1)  # noqa: S311 - repeatable, nothing secret
    assert chaos_files._of_different_plans([], chance) == []
    assert len(chaos_files._of_different_plans(files, chance)) == 1
    monkeypatch.setattr(chaos_files, "AT_ONCE", 3)
    for _ in range(20):
        chosen = chaos_files._of_different_plans(files, chance)
        assert len({one.parts[5:6] for one in chosen}) == 3
    monkeypatch.setattr(chaos_files, "AT_ONCE", 9)
    assert len(chaos_files._of_different_plans(files, chance)) == 5


def test_what_was_damaged_is_counted_and_what_could_not_be_is_not(tmp_path: Path) -> None:
    chaos_files.TALLY.clear()
    file = tmp_path / "log.json"
    file.write_text("{}")
    chance = random.Random(1)  # noqa: S311 - repeatable, nothing secret
    assert chaos_files._damaged([file], "wal", "removed", chance) == f"{tmp_path.name}/log.json"
    assert "nothing" in chaos_files._damaged([file], "wal", "removed", chance)
    assert "nothing" in chaos_files._damaged([], "wal", "flipped", chance)
    assert chaos_files.TALLY == {"wal removed": 1, "wal flipped": 0}


def test_no_fault_comes_after_the_time_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chaos = Chaos(5, 1, "exactly-once", tmp_path, plans=(), most_s=0.0)
    for name in ("_all_connected", "_measure_calm"):
        monkeypatch.setattr(Chaos, name, lambda *_: True)
    monkeypatch.setattr(chaos_run, "ChaosSystem", lambda *_, **__: contextlib.nullcontext(StillSystem()))
    monkeypatch.setattr(Chaos, "_judge", lambda self, *_: self.done)
    assert chaos.run_at(None) == 0  # type: ignore[arg-type, comparison-overlap]


class StillSystem:
    """Has no workers, and is ready."""

    folder, token = Path(), ""

    def worker_urls(self) -> dict[str, str]:
        return {}

    def until(self, reached: Any) -> None:
        assert reached()
