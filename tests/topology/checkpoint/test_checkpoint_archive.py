"""Where a topology begins after whatever has happened, and what is left of checkpoints that nobody needs."""

from __future__ import annotations

import logging
import random
from dataclasses import dataclass
from pathlib import Path

import pytest
from checkpoint_stores import KEY, plan_xml, store_of

from cep_common.protocol.checkpoints import NO_SAVEPOINT, ReportPart
from cep_common.protocol.registry import CheckpointSpan
from topology.checkpoint.coordination.archive import Archive, RunStart
from topology.checkpoint.coordination.instructions import WriteManifest
from topology.checkpoint.coordination.runs import RunId
from topology.checkpoint.errors import CheckpointError, CheckpointUnreadableError
from topology.checkpoint.model import Manifest
from topology.checkpoint.storage.store import read_state
from topology.checkpoint.storage.writer import PartWriter

PLAN = plan_xml()
WINDOW = random.Random(1).randbytes(300_000)  # noqa: S311 - the same in each run


@dataclass
class Driver:
    """A driver process with its archive, and one task for each run that it opens."""

    folder: Path
    retained: int = 2
    deployed_ms: int = 0

    def __post_init__(self) -> None:
        self.store = store_of("directory", self.folder)
        self.archive = Archive(self.store, self.retained)
        self.writers: dict[RunId, PartWriter] = {}
        self.spans: dict[RunId, tuple[CheckpointSpan, ...]] = {}
        self.plan = PLAN

    def open(self, epoch: int, attempt: int = 0, restore: str = "", restore_epoch: int = 0) -> RunStart:
        run = RunId(KEY, epoch, attempt, self.deployed_ms)
        opened = self.archive.open_run(run, restore, restore_epoch)
        manifest = self.store.read_manifest(opened.reference) if opened.reference else None
        self.writers[run] = PartWriter(self.store, KEY, epoch, attempt, 0, manifest)
        self.spans[run] = opened.opening.spans
        return opened

    def take(self, checkpoint: int, epoch: int, attempt: int = 0, state: bytes = b"", name: str = "") -> Manifest:
        run = RunId(KEY, epoch, attempt, self.deployed_ms)
        part = self.writers[run].write(checkpoint, {"all#0": state or b"%d" % checkpoint})
        report = ReportPart(KEY, epoch, attempt, 0, checkpoint, part.states, part.packs, 1, part.stored_bytes)
        order = WriteManifest(run, checkpoint, (report,), name, 5)
        manifest = self.archive.write(order, self.plan, self.spans[run], 1_000 * checkpoint)
        self.writers[run].complete(checkpoint)
        return manifest

    def another(self, deployed_ms: int) -> Driver:
        """A driver for the same store, whose manager deployed a plan of the same name at that time."""
        return Driver(self.folder, self.retained, deployed_ms)

    def taken(self) -> list[int]:
        return [one.checkpoint for one in self.store.taken(KEY)]


@pytest.fixture
def driver(tmp_path: Path) -> Driver:
    return Driver(tmp_path)


def spans(*found: tuple[int, int, int]) -> tuple[CheckpointSpan, ...]:
    return tuple(CheckpointSpan(*one) for one in found)


def test_a_plan_begins_without_state_and_each_later_attempt_from_the_newest_checkpoint(driver: Driver) -> None:
    first = driver.open(1)
    assert (first.reference, first.opening.spans, first.opening.last_number) == ("", (), 0)
    driver.take(1, 1)
    manifest = driver.take(2, 1)
    assert ("all", "processor", 3) in [(one.name, one.kind, one.parallel) for one in manifest.stages]
    second = driver.open(1, 1)
    assert (second.number, second.opening.spans) == (2, spans((1, 0, 2)))
    assert second.opening.last_number >= 10
    third = Driver(driver.folder).open(2)
    assert (third.number, third.opening.spans) == (2, spans((1, 0, 2), (1, 1, 0)))
    assert third.opening.continues == (manifest.query_plan, manifest.tasks)
    assert first.opening.continues is None


@pytest.mark.parametrize("kept", [1, 3])
def test_as_many_checkpoints_are_kept_as_the_plan_says(driver: Driver, kept: int) -> None:
    driver.plan = PLAN.replace("<query-plan ", f'<query-plan checkpointsKept="{kept}" ')
    driver.open(1)
    for number in range(1, 6):
        driver.take(number, 1)
    assert sorted(driver.taken()) == list(range(6 - kept, 6))
    driver.plan = PLAN
    driver.take(6, 1)
    assert len(driver.taken()) == min(kept + 1, driver.retained), "as many as are configured"


def test_numbers_are_not_given_out_twice_whatever_was_begun_and_never_completed(driver: Driver) -> None:
    given: set[int] = set()
    for attempt in range(5):
        opening = Driver(driver.folder).open(1, attempt).opening
        numbers = set(range(opening.last_number + 1, opening.reserved + 1))
        assert not numbers & given
        given |= numbers
    reserved = Driver(driver.folder).open(2).opening.reserved
    again = Driver(driver.folder)
    more = again.archive.reserve(RunId(KEY, 2, 0))
    assert more > reserved
    assert again.open(3).opening.last_number >= more


def test_checkpoints_of_an_attempt_that_was_replaced_do_not_count(driver: Driver) -> None:
    driver.open(1)
    driver.take(1, 1)
    other = Driver(driver.folder)
    other.open(2)
    with pytest.raises(CheckpointError, match="attempt 0 of epoch 2"):
        driver.take(2, 1)
    with pytest.raises(CheckpointError, match=r"are of epoch 2 \(attempt 0\) already, this is epoch 1"):
        driver.open(1, 1)
    assert other.open(2, 1).number == 1


def test_a_run_that_another_driver_began_under_the_same_number_is_not_begun_again(driver: Driver) -> None:
    """An epoch that was given out twice: workers would take what is left of the first run for the second's."""
    driver.open(9)
    driver.take(1, 9)
    assert driver.open(9).number == 1, "the one that began it may ask once more: it may not have heard the answer"
    other = Driver(driver.folder)
    with pytest.raises(CheckpointError, match=r"are of epoch 9 \(attempt 0\) already, this is epoch 9 \(attempt 0\)"):
        other.open(9)
    opened = other.open(9, 1)
    assert (opened.number, opened.opening.spans) == (1, (CheckpointSpan(9, 0, 1),))


def test_a_manifest_that_a_former_driver_wrote_too_late_is_not_begun_from(driver: Driver) -> None:
    driver.open(1)
    driver.take(1, 1)
    late = driver.take(2, 1)
    driver.archive._delete(KEY, driver.store.taken(KEY)[0])
    other = Driver(driver.folder)
    assert other.open(2).number == 1
    driver.store.write_manifest(late)
    assert other.open(2, 1).number == 1


def test_only_so_many_checkpoints_are_kept_and_their_packs_with_them(driver: Driver) -> None:
    driver.open(1)
    for number in range(1, 6):
        driver.take(number, 1, state=random.Random(number).randbytes(100_000))  # noqa: S311 - the same in each run
    assert driver.taken() == [5, 4]
    assert len(driver.store.pack_sizes(KEY)) == 2


def test_when_the_newest_is_damaged_the_one_before_is_used_and_told_of(
    driver: Driver, caplog: pytest.LogCaptureFixture
) -> None:
    driver.open(1)
    driver.take(1, 1)
    driver.open(1, 1)
    driver.take(12, 1, 1)
    for newest in (driver.folder / "checkpoints").rglob("checkpoints/*12-1-1"):
        newest.write_bytes(newest.read_bytes()[:-3])
    with caplog.at_level(logging.ERROR):
        opened = driver.open(1, 2)
    assert (opened.number, opened.opening.spans) == (1, spans((1, 0, 1), (1, 1, 0)))
    assert "checkpoint 12 of Delays[-1234] is passed over" in caplog.text


def test_a_plan_of_which_nothing_can_be_read_begins_without_state_and_says_so(
    driver: Driver, caplog: pytest.LogCaptureFixture
) -> None:
    driver.open(1)
    driver.take(1, 1)
    for manifest in (driver.folder / "checkpoints").rglob("checkpoints/*1-1-0"):
        manifest.write_bytes(b"")
    with caplog.at_level(logging.ERROR):
        opened = driver.open(2)
    assert (opened.reference, opened.goes_back) == ("", True), "what logs still hold is asked for"
    assert "no checkpoint can be read, the plan begins without state" in caplog.text


@pytest.mark.parametrize("content", [None, b"", b"damaged"])
def test_a_lineage_that_is_lost_while_the_topology_runs_is_written_again(
    driver: Driver, content: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    """Or no checkpoint of the run would ever count."""
    driver.open(1)
    for lineage in (driver.folder / "checkpoints").rglob("lineage"):
        if content is None:
            lineage.unlink()
        else:
            lineage.write_bytes(content)
    with caplog.at_level(logging.ERROR):
        driver.take(1, 1)
    assert "lineage is older than the running topology, written again" in caplog.text
    driver.take(2, 1)
    assert driver.open(2).number == 2


def test_a_lineage_that_is_lost_before_checkpoints_are_cleared_is_written_again(driver: Driver) -> None:
    driver.open(1)
    driver.take(1, 1, name="before")
    driver.open(2, restore="before")
    for lineage in (driver.folder / "checkpoints").rglob("lineage"):
        lineage.unlink()
    with pytest.raises(CheckpointError, match="was started from before and has no checkpoint yet"):
        driver.archive.delete_savepoint(KEY, "before")
    for lineage in (driver.folder / "checkpoints").rglob("lineage"):
        lineage.unlink()
    driver.archive.clear(KEY)
    driver.take(20, 2)
    assert driver.open(3).number == 20


def test_a_plan_of_which_not_even_the_lineage_can_be_read_waits_until_people_decide(driver: Driver) -> None:
    driver.open(1)
    driver.take(1, 1)
    folder = driver.folder / "checkpoints" / "-1234" / "Delays"
    for file in [*folder.rglob("lineage"), *folder.rglob("checkpoints/*1-1-0")]:
        file.write_bytes(b"")
    with pytest.raises(CheckpointUnreadableError, match="Accepted events wait until then") as refused:
        driver.open(2)
    assert "cep restart Delays --from SAVEPOINT`, or `--from none` for empty state" in str(refused.value)
    assert driver.open(2, restore=NO_SAVEPOINT).reference == ""


@pytest.mark.parametrize("damage", ["gone", "torn", "another number of its format"])
def test_a_damaged_lineage_and_one_that_is_gone_are_made_anew_from_the_checkpoints(
    damage: str, driver: Driver, caplog: pytest.LogCaptureFixture
) -> None:
    driver.open(1)
    driver.take(1, 1)
    for kept in (driver.folder / "checkpoints").rglob("lineage"):
        if damage == "gone":
            kept.unlink()
        elif damage != "torn":
            kept.write_bytes(kept.read_bytes()[:9] + b"\3" + kept.read_bytes()[10:])
        else:
            kept.write_bytes(b"CEPCHKPT")
    opened = Driver(driver.folder).open(2)
    assert (opened.number, opened.opening.spans) == (1, spans((1, 0, 1)))
    assert opened.opening.last_number > 10
    assert "the valid checkpoints of Delays[-1234] are determined from their files" in caplog.text


def test_a_plan_can_begin_from_a_savepoint_and_keeps_to_it_until_it_has_a_checkpoint(driver: Driver) -> None:
    driver.open(1)
    driver.take(1, 1, state=WINDOW, name="before")
    driver.take(2, 1)
    opened = driver.open(2, restore="before")
    assert (opened.number, opened.opening.spans) == (1, spans((1, 0, 2)))
    manifest = driver.store.read_manifest(opened.reference)
    assert read_state(driver.store, manifest, "all#0") == WINDOW
    again = driver.open(2, 1, restore="before")
    assert (again.reference, again.opening.spans) == (opened.reference, spans((1, 0, 2), (2, 0, 0)))
    with pytest.raises(CheckpointError, match="was started from before and has no checkpoint yet"):
        driver.archive.delete_savepoint(KEY, "before")
    number = again.opening.last_number + 1
    driver.take(number, 2, 1)
    assert driver.open(2, 2, restore="before").number == number
    driver.archive.delete_savepoint(KEY, "before")
    assert driver.archive.savepoints() == []
    with pytest.raises(CheckpointUnreadableError, match="no savepoint named before"):
        driver.open(3, restore="before")


def test_a_plan_can_begin_anew_and_does_not_go_back_behind_that(driver: Driver) -> None:
    driver.open(1)
    driver.take(1, 1)
    assert driver.open(2, restore=NO_SAVEPOINT).reference == ""
    assert driver.open(2, 1, restore=NO_SAVEPOINT).reference == ""
    number = driver.open(3).opening.last_number + 1
    driver.take(number, 3)
    assert driver.taken() == [number]
    assert driver.open(3, 1, restore="").number == number


@pytest.mark.parametrize("restore", [NO_SAVEPOINT, "before"])
def test_what_has_begun_as_it_was_told_goes_on_when_it_is_told_the_same_again_under_a_later_epoch(
    restore: str, driver: Driver
) -> None:
    driver.open(1)
    driver.take(1, 1, name="before")
    begun = driver.open(2, restore=restore, restore_epoch=2)
    number = driver.take(begun.opening.last_number + 1, 2).checkpoint
    unseen = Driver(driver.folder).open(3, restore=restore, restore_epoch=2)
    assert (unseen.number, unseen.opening.spans[-1]) == (number, CheckpointSpan(2, 0, number))
    again = Driver(driver.folder).open(4, restore=restore, restore_epoch=2)
    assert again.number == number, "epoch 3 was of the same order"
    assert Driver(driver.folder).open(5, restore=restore, restore_epoch=5).reference == begun.reference


def test_a_submission_that_got_lost_is_carried_out_when_it_is_made_again(driver: Driver) -> None:
    driver.open(1)
    driver.take(1, 1)
    assert driver.open(3, restore=NO_SAVEPOINT, restore_epoch=2).reference == ""


def test_a_plan_that_is_deployed_anew_begins_also_when_epochs_are_counted_anew(driver: Driver) -> None:
    driver.open(7)
    driver.take(1, 7)
    with pytest.raises(CheckpointError, match="the manager's database was replaced by an older one"):
        Driver(driver.folder).open(1)
    other = Driver(driver.folder)
    opened = other.open(1, restore=NO_SAVEPOINT)
    assert (opened.reference, opened.opening.spans) == ("", ())
    other.take(opened.opening.last_number + 1, 1)
    assert Driver(driver.folder).open(2).number == opened.opening.last_number + 1


def test_an_order_that_comes_late_does_not_throw_away_what_has_begun_under_it_since(driver: Driver) -> None:
    driver.open(1, restore=NO_SAVEPOINT, restore_epoch=1)
    driver.take(1, 1)
    newer = driver.open(3, restore=NO_SAVEPOINT, restore_epoch=1)
    assert newer.number == 1
    with pytest.raises(CheckpointError, match=r"are of epoch 3 \(attempt 0\) already, this is epoch 2"):
        Driver(driver.folder).open(2, restore=NO_SAVEPOINT, restore_epoch=1)
    assert Driver(driver.folder).open(4).number == 1


def test_an_undeployed_plan_leaves_its_savepoints_alone(driver: Driver) -> None:
    driver.open(1)
    driver.take(1, 1, state=WINDOW, name="kept")
    last = driver.take(2, 1, state=WINDOW[::-1])
    driver.archive.forget(KEY, 1)
    assert driver.taken() == [2, 1], "its topology still works"
    driver.archive.end_run(RunId(KEY, 1, 0))
    driver.archive.forget(KEY, 1)
    assert driver.taken() == []
    assert [one.name for one in driver.archive.savepoints()] == ["kept"]
    assert len(driver.store.pack_sizes(KEY)) == 1
    opened = driver.open(2)
    assert opened.reference == ""
    assert opened.opening.last_number > last.checkpoint


def test_a_later_epoch_keeps_its_checkpoints_when_an_earlier_one_is_forgotten(driver: Driver) -> None:
    driver.open(2)
    driver.take(1, 2)
    driver.archive.end_run(RunId(KEY, 2, 0))
    driver.archive.forget(KEY, 1)
    assert driver.taken() == [1]


def test_cleared_checkpoints_are_gone_and_the_running_topology_goes_on(driver: Driver) -> None:
    driver.open(1)
    driver.take(1, 1, state=WINDOW)
    driver.take(2, 1, state=WINDOW)
    assert driver.archive.clear(KEY) == 2
    assert driver.taken() == []
    manifest = driver.take(3, 1, state=WINDOW)
    assert read_state(driver.store, manifest, "all#0") == WINDOW


@pytest.mark.parametrize(("former_epoch", "epoch", "told_under"), [(1, 1, 1), (5, 1, 1), (5, 6, 1), (1, 4, 4)])
def test_a_plan_of_a_new_database_begins_without_what_a_plan_of_its_name_has_left_and_that_is_kept(
    former_epoch: int, epoch: int, told_under: int, driver: Driver
) -> None:
    former = driver.another(1_000)
    former.open(former_epoch)
    former.take(1, former_epoch, state=WINDOW)
    plan = driver.another(2_000)
    opened = plan.open(epoch, restore=NO_SAVEPOINT, restore_epoch=told_under)
    assert (opened.reference, opened.opening.spans, opened.kept) == ("", (), "former-1")
    for number in range(opened.opening.last_number + 1, opened.opening.last_number + 4):
        plan.take(number, epoch)
    again = driver.another(2_000).open(epoch, 1)
    assert (again.number, again.kept) == (number, "")
    on_purpose = driver.another(2_000).open(epoch + 1, restore="former-1")
    manifest = driver.store.read_manifest(on_purpose.reference)
    assert (on_purpose.number, read_state(driver.store, manifest, "all#0")) == (1, WINDOW)


def test_a_plan_of_a_new_database_can_begin_at_once_from_a_savepoint_of_its_name(driver: Driver) -> None:
    driver.another(1_000).open(1)
    former = driver.another(1_000)
    former.open(1, 1)
    former.take(11, 1, 1, name="before")
    former.take(12, 1, 1)
    opened = driver.another(2_000).open(1, restore="before")
    assert (opened.number, opened.kept) == (11, "former-12")


@pytest.mark.parametrize("begun", [1, 3])
def test_of_two_plans_of_a_name_the_one_that_was_there_first_takes_no_more_checkpoints_and_says_why(
    driver: Driver, begun: int
) -> None:
    former, plan = driver.another(1_000), driver.another(2_000)
    former.open(begun)
    former.take(1, begun)
    plan.open(1, restore=NO_SAVEPOINT)
    with pytest.raises(CheckpointError, match="another plan of the name Delays"):
        former.take(2, begun)
    for epoch, attempt in ((begun, 1), (begun + 1, 0)):
        with pytest.raises(CheckpointError, match="must not share it"):
            driver.another(1_000).open(epoch, attempt, restore=NO_SAVEPOINT, restore_epoch=begun)
    number = plan.take(20, 1).checkpoint
    driver.another(1_000).archive.forget(KEY, 9, 1_000)
    assert plan.open(1, 1).number == number, "undeploying the first takes nothing from the other"
    assert driver.another(1_000).open(5, restore="former-1").number == 1, "on purpose"


def test_a_plan_that_never_began_leaves_what_another_of_its_name_has_when_it_is_undeployed(driver: Driver) -> None:
    former = driver.another(1_000)
    former.open(1)
    former.take(1, 1)
    driver.another(2_000).archive.forget(KEY, 1, 2_000)
    assert driver.taken() == [1]
    driver.another(1_000).archive.forget(KEY, 1, 1_000)
    assert driver.taken() == []


def test_what_an_earlier_version_wrote_is_the_plans_own_when_that_was_deployed_before(driver: Driver) -> None:
    driver.open(1)
    driver.take(3, 1)  # at 3,000 ms
    assert driver.another(3_001).open(1, restore=NO_SAVEPOINT).kept == "former-3"
    other = Driver(driver.folder / "other")
    other.open(1)
    other.take(3, 1)
    assert other.another(2_999).open(1, 1).number == 3


def test_a_lineage_made_anew_from_checkpoints_knows_whose_they_are(driver: Driver) -> None:
    former = driver.another(1_000)
    former.open(1)
    former.take(1, 1)
    for lineage in (driver.folder / "checkpoints").rglob("lineage"):
        lineage.unlink()
    assert driver.another(1_000).open(1, 1).number == 1
    for lineage in (driver.folder / "checkpoints").rglob("lineage"):
        lineage.unlink()
    assert driver.another(2_000).open(1, 2).kept == "former-1"
