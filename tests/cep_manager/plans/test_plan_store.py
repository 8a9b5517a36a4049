"""The plan store on a real SQLite file and on a real PostgreSQL server."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest
from databases import KINDS, leading_store, open_database, take_lease, url_of
from manager_world import KEY

from cep_common.ids import PlanKey
from cep_common.protocol.registry import RemovedPlan
from cep_manager.errors import NotLeaderError, PlanExistsError
from cep_manager.persistence.database import Database
from cep_manager.plans.scaling import Scaling
from cep_manager.plans.store import MOST_SCALINGS, REMOVED_KNOWN_MS, PlanStore
from cep_manager.plans.stored_plan import PlanSettings, SettingsPatch, StoredPlan, StoredVersion

OTHER = PlanKey(KEY.tenant, "Gales")


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return url_of(request.param, request, tmp_path)


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    made = open_database(url, timeout_ms=20_000)
    yield made
    made.close()


@pytest.fixture
def store(database: Database) -> PlanStore:
    return leading_store(database)


def raise_epoch(store: PlanStore, above: int = 0) -> int:
    """Raise the epoch of the one plan."""
    (epoch,) = store.raise_epochs([(KEY, above)])
    return epoch


def test_what_was_stored_is_there_after_a_restart(store: PlanStore, database: Database, url: str) -> None:
    stored = store.add(KEY, "text", now_ms=5)
    other = store.add(PlanKey(7, "Storms"), "of tenant 7", now_ms=6)
    database.close()
    again = open_database(url)
    assert PlanStore(again).plans() == (stored, other)
    again.close()


def test_plans_that_were_removed_on_purpose_are_known_by_their_deployment(store: PlanStore, database: Database) -> None:
    store.add(KEY, "text", now_ms=5)
    store.add(OTHER, "text", now_ms=6)
    assert store.remove(KEY, now_ms=10)
    assert not store.remove(KEY, now_ms=11)
    store.add(KEY, "text", now_ms=20)
    store.remove(OTHER, now_ms=21)
    assert store.removed() == (RemovedPlan(KEY, 5), RemovedPlan(OTHER, 6))
    store.remove(KEY, now_ms=10 + REMOVED_KNOWN_MS + 1)
    assert store.removed() == (RemovedPlan(OTHER, 6), RemovedPlan(KEY, 20)), "the first is forgotten after a while"


def test_a_database_has_an_identity_of_its_own(store: PlanStore, database: Database, url: str, tmp_path: Path) -> None:
    assert len(store.system()) == 32
    again = open_database(url)
    assert PlanStore(again).system() == store.system()
    again.close()
    other = open_database(f"sqlite:///{tmp_path}/other.db")
    assert PlanStore(other).system() != store.system()
    other.close()


def test_a_second_plan_of_a_name_is_refused_and_the_first_stays(store: PlanStore) -> None:
    stored = store.add(KEY, "text", now_ms=5)
    with pytest.raises(PlanExistsError):
        store.add(KEY, "other", now_ms=6)
    assert store.plans() == (stored,)


def test_epochs_grow_by_one_and_outlive_their_plan(store: PlanStore) -> None:
    assert store.add(KEY, "text", now_ms=1).epoch == 1
    assert raise_epoch(store) == 2
    changed = store.change(KEY, "update", "other", None, None, now_ms=9)
    assert changed is not None
    assert (changed.epoch, changed.text, changed.created_ms, changed.updated_ms) == (3, "other", 1, 9)
    assert store.remove(KEY)
    assert store.add(KEY, "text", now_ms=20).epoch == 4


def test_epochs_of_several_plans_are_raised_in_one_transaction(store: PlanStore) -> None:
    other = PlanKey(KEY.tenant, "Other")
    for key in (KEY, other):
        store.add(key, "text", now_ms=1)
    assert store.raise_epochs([(KEY, 0), (other, 6), (KEY, 0)]) == [2, 7, 3]
    assert {plan.key.plan: plan.epoch for plan in store.plans()} == {KEY.plan: 3, "Other": 7}
    store.restart(KEY, "before")
    store.restart(other, "before")
    store.all_begun([(KEY, 4), (other, 7)])
    assert {plan.key.plan: plan.restore for plan in store.plans()} == {KEY.plan: "", "Other": "before"}


def test_where_epochs_of_another_database_are_left_out_a_plan_still_begins_as_it_was_told(store: PlanStore) -> None:
    store.add(KEY, "text", now_ms=1)
    assert raise_epoch(store, above=4) == 5
    (plan,) = store.plans()
    assert (plan.restore, plan.restore_epoch) == ("", 0)
    store.restart(KEY, "none")
    assert raise_epoch(store) == 7
    (plan,) = store.plans()
    assert (plan.restore, plan.restore_epoch) == ("none", 6), "told under 6, and it may have begun since"
    assert raise_epoch(store, above=9) == 10
    (plan,) = store.plans()
    assert (plan.epoch, plan.restore, plan.restore_epoch) == (10, "none", 10)


def test_epochs_counted_by_several_threads_are_all_different(store: PlanStore) -> None:
    with ThreadPoolExecutor(4) as pool:
        epochs = list(pool.map(lambda _: raise_epoch(store), range(20)))
    assert sorted(epochs) == list(range(1, 21))


def test_what_is_not_there_is_neither_changed_nor_renamed_nor_removed(store: PlanStore) -> None:
    assert store.change(KEY, "update", "text", None, None, now_ms=1) is None
    assert store.rename(KEY, "Gales", "text", now_ms=1) is None
    assert store.restart(KEY, "before") is None
    assert not store.remove(KEY)
    store.settle(KEY, 1, StoredVersion("text", 1, 1))
    store.change_settings(KEY, SettingsPatch(intake=False))
    assert store.plans() == ()


def changed_to(store: PlanStore, text: str, former: StoredVersion, workers: int | None = None) -> StoredPlan:
    """The plan after a change that is not settled."""
    store.change(KEY, "update", text, workers, former, now_ms=7)
    (plan,) = store.plans()
    return plan


FIRST = StoredVersion("first", 5, 1)
SCALED = Scaling(5, "perKey", 1, 2, 1_000.0, "busiest instance 92% for 30 s → 2 instances")


def test_a_change_keeps_what_the_plan_was_until_it_is_settled(store: PlanStore) -> None:
    first = store.add(KEY, "first", now_ms=5, origin="plans/storms.siddhiql")
    changed = changed_to(store, "second", FIRST, workers=2)
    assert (changed.change, changed.former, changed.epoch, changed.workers) == ("update", FIRST, 2, 2)
    store.settle(KEY, 2, FIRST)
    assert store.plans() == (msgspec.structs.replace(first, counted=2),)
    assert raise_epoch(store) == 3, "the epoch of a change that failed is used up"


def test_where_a_plan_was_moved_to_is_kept_and_comes_back_with_its_former_form(store: PlanStore) -> None:
    store.add(KEY, "first", now_ms=5)
    store.change(KEY, "rebalance", "first", None, None, now_ms=7, host="own")
    assert [plan.host for plan in store.plans()] == ["own"]
    former = StoredVersion("first", 7, 2, host="own")
    store.change(KEY, "rebalance", "first", None, former, now_ms=8, host="shared")
    (moved,) = store.plans()
    assert (moved.host, moved.former) == ("shared", former)
    store.settle(KEY, 3, former)
    assert [plan.host for plan in store.plans()] == ["own"]


def test_the_instances_of_a_plan_are_kept_and_come_back_with_its_former_form(store: PlanStore) -> None:
    store.add(KEY, "first", now_ms=5)
    store.change(KEY, "rebalance", "first", None, None, now_ms=7, instances={"perKey": 2})
    assert [plan.instances for plan in store.plans()] == [{"perKey": 2}]
    former = StoredVersion("first", 7, 2, instances={"perKey": 2})
    store.change(KEY, "rebalance", "first", None, former, now_ms=8, instances={"perKey": 4})
    (scaled,) = store.plans()
    assert (scaled.instances, scaled.former) == ({"perKey": 4}, former)
    store.settle(KEY, 3, former)
    assert [plan.instances for plan in store.plans()] == [{"perKey": 2}]


def test_changes_of_instances_are_recorded_up_to_a_number_and_go_with_their_plan(store: PlanStore) -> None:
    store.add(KEY, "first", now_ms=5)
    store.note_scalings(KEY, [msgspec.structs.replace(SCALED, at_ms=at_ms) for at_ms in range(MOST_SCALINGS + 2)])
    store.note_scaling_problem(KEY, MOST_SCALINGS, "no such host")
    found = store.scalings(KEY)
    assert [one.at_ms for one in found] == list(range(2, MOST_SCALINGS + 2))
    assert [one.problem for one in found if one.problem] == ["no such host"]
    assert found[0] == msgspec.structs.replace(SCALED, at_ms=2)
    with store.together():
        store.remove(KEY)
    assert store.scalings(KEY) == ()
    store.note_scalings(KEY, [SCALED])
    store.add(KEY, "again", now_ms=6)
    assert store.scalings(KEY) == (), "a change of the removed plan, noted when it was gone"


def test_a_change_that_works_is_settled_under_its_own_epoch(store: PlanStore) -> None:
    store.add(KEY, "first", now_ms=5)
    changed_to(store, "second", FIRST)
    store.settle(KEY, 2, StoredVersion("second", 7, 2))
    (plan,) = store.plans()
    assert (plan.text, plan.epoch, plan.updated_ms, plan.change, plan.former) == ("second", 2, 7, None, None)


def test_an_epoch_counted_while_a_change_was_under_way_holds_when_it_is_settled(store: PlanStore) -> None:
    store.add(KEY, "first", now_ms=5)
    changed_to(store, "second", FIRST)
    raise_epoch(store)
    store.settle(KEY, 2, StoredVersion("second", 7, 2))
    assert [plan.epoch for plan in store.plans()] == [3]


def test_a_change_settled_after_a_newer_one_began_is_what_that_one_can_go_back_to(store: PlanStore) -> None:
    store.add(KEY, "first", now_ms=5)
    changed_to(store, "second", FIRST)
    changed_to(store, "third", FIRST)
    second = StoredVersion("second", 7, 2)
    store.settle(KEY, 2, second)
    (plan,) = store.plans()
    assert (plan.text, plan.epoch, plan.former) == ("third", 3, second)


def restore(store: PlanStore) -> tuple[str, int]:
    """What the plan is to begin from, and under which epoch that was said."""
    (plan,) = store.plans()
    return plan.restore, plan.restore_epoch


NEWEST_CHECKPOINT = ("", 0)


def test_what_a_plan_is_to_begin_from_is_kept_until_it_has_run(store: PlanStore) -> None:
    store.add(KEY, "text", now_ms=5, restore="before")
    raise_epoch(store)
    assert restore(store) == ("before", 1), "a submission that was lost is made again"
    store.all_begun([(KEY, 2)])
    assert restore(store) == NEWEST_CHECKPOINT
    restarted = store.restart(KEY, "later")
    assert restarted is not None
    assert (restarted.epoch, restarted.restore, restarted.restore_epoch) == (3, "later", 3)
    store.all_begun([(KEY, 2)])
    assert restore(store) == ("later", 3), "what was told of an earlier epoch"
    store.change(KEY, "update", "other", None, None, now_ms=9, restore="none")
    assert restore(store) == ("none", 4)
    store.rename(KEY, "Gales", "other", now_ms=10)
    assert restore(store) == ("none", 4), "it has not run yet"


def test_what_is_to_begin_from_the_same_as_before_was_told_so_when_it_was_told_first(store: PlanStore) -> None:
    store.add(KEY, "text", now_ms=5, restore="before")
    store.change(KEY, "update", "other", None, None, now_ms=9, restore="before", restore_epoch=1)
    assert restore(store) == ("before", 1)
    store.restart(KEY, "before", 1)
    assert restore(store) == ("before", 1)
    store.restart(KEY, "before")
    assert restore(store) == ("before", 4), "it was asked for once more"
    store.restart(KEY, "")
    assert restore(store) == NEWEST_CHECKPOINT


def test_a_change_that_came_to_nothing_leaves_nothing_to_begin_from(store: PlanStore) -> None:
    store.add(KEY, "text", now_ms=5)
    store.change(KEY, "update", "other", None, FIRST, now_ms=9, restore="before")
    raise_epoch(store)
    store.settle(KEY, 3, FIRST)
    assert restore(store) == NEWEST_CHECKPOINT


def test_what_a_restarted_plan_begins_from_outlives_the_end_of_an_earlier_change(store: PlanStore) -> None:
    store.add(KEY, "text", now_ms=5)
    store.change(KEY, "update", "other", None, FIRST, now_ms=9)
    store.restart(KEY, "before")
    store.settle(KEY, 2, StoredVersion("other", 9, 2))
    assert restore(store) == ("before", 3)


def test_a_renamed_plan_is_there_once_with_all_that_was_set(store: PlanStore) -> None:
    store.add(KEY, "first", now_ms=5)
    store.change_settings(KEY, SettingsPatch(intake=False))
    changed_to(store, "second", FIRST, workers=2)
    store.settle(KEY, 2, StoredVersion("second", 7, 2, 2))
    renamed = store.rename(KEY, "Gales", "renamed", now_ms=9)
    assert renamed == StoredPlan(
        KEY,
        "renamed",
        2,
        created_ms=5,
        updated_ms=9,
        settings=PlanSettings(intake=False),
        workers=2,
        counted=2,
        former_names=("Storms",),
    )
    assert (renamed.key.plan, renamed.key.identity) == ("Gales", "Storms")
    assert store.plans() == (renamed,)


def test_a_plan_that_takes_the_former_name_of_another_one_is_another_plan(store: PlanStore) -> None:
    store.add(KEY, "text", now_ms=5)
    store.rename(KEY, "Gales", "text", now_ms=6)
    new = store.key_of(KEY.tenant, "Storms")
    assert (new.plan, new.identity) == ("Storms", "Storms~2")
    added = store.add(new, "new", now_ms=7)
    assert added.epoch == 1
    gales, storms = store.plans()
    assert (gales.key, gales.former_names, storms) == (KEY, (), added), "the name is the new plan's"
    assert store.key_of(KEY.tenant, "Gales") == KEY
    assert store.raise_epochs([(new, 0)])[0] == 2
    assert [plan.epoch for plan in store.plans()] == [1, 2]
    store.remove(new)
    store.remove(KEY)
    assert (store.key_of(KEY.tenant, "Storms"), store.key_of(KEY.tenant, "Gales")) == (new, KEY), "savepoints stay"
    assert store.key_of(7, "Storms") == PlanKey(7, "Storms"), "of another tenant"


def test_a_plan_has_its_first_name_again(store: PlanStore) -> None:
    store.add(KEY, "text", now_ms=5)
    store.rename(KEY, "Gales", "text", now_ms=6)
    back = store.rename(KEY, "Storms", "text", now_ms=7)
    assert back is not None
    assert (back.key, back.key.plan) == (KEY, KEY.plan)
    assert back.former_names == ("Gales",)
    assert store.key_of(KEY.tenant, "Gales").identity == "Gales"


def test_a_name_whose_former_plan_was_undeployed_means_the_renamed_plan_from_now_on(store: PlanStore) -> None:
    store.add(OTHER, "gone", now_ms=4)
    store.remove(OTHER)
    store.add(KEY, "text", now_ms=5)
    store.rename(KEY, "Gales", "text", now_ms=6)
    store.remove(KEY)
    assert store.key_of(KEY.tenant, "Gales") == KEY
    assert store.key_of(KEY.tenant, "Storms").identity == "Storms~2"


def test_a_plan_is_not_renamed_onto_another_one(store: PlanStore) -> None:
    both = (store.add(OTHER, "other", now_ms=5), store.add(KEY, "text", now_ms=5))
    with pytest.raises(PlanExistsError):
        store.rename(KEY, "Gales", "text", now_ms=9)
    assert store.plans() == both


WRITES = {
    "add": lambda store: store.add(OTHER, "text", now_ms=1),
    "change": lambda store: store.change(KEY, "update", "other", None, None, now_ms=1),
    "settle": lambda store: store.settle(KEY, 1, FIRST),
    "note_scalings": lambda store: store.note_scalings(KEY, [SCALED]),
    "note_scaling_problem": lambda store: store.note_scaling_problem(KEY, 5, "no"),
    "change_settings": lambda store: store.change_settings(KEY, SettingsPatch(intake=False)),
    "set_draining": lambda store: store.set_draining(KEY, ("w1",)),
    "rename": lambda store: store.rename(KEY, "Gales", "text", now_ms=1),
    "restart": lambda store: store.restart(KEY, "before"),
    "all_begun": lambda store: store.all_begun([(KEY, 1)]),
    "raise_epochs": lambda store: store.raise_epochs([(KEY, 0)]),
    "remove": lambda store: store.remove(KEY),
}


def test_nothing_that_a_former_leader_writes_comes_about_and_it_is_told_so(database: Database) -> None:
    told: list[tuple[int, str]] = []
    former = leading_store(database, "one", lambda token, reason: told.append((token, reason)))
    former.add(KEY, "text", now_ms=5)
    leader = leading_store(database, "two")
    before = leader.plans()
    for write in WRITES.values():
        with pytest.raises(NotLeaderError, match="token 1 has expired"):
            write(former)
    assert leader.plans() == former.plans() == before
    assert [token for token, _ in told] == [1] * len(WRITES)
    assert raise_epoch(leader) == 2, "no epoch was counted meanwhile"


def test_every_method_that_writes_is_among_those_that_are_refused() -> None:
    reads = {"lead", "plans", "key_of", "removed", "scalings", "system", "database_problem", "together"}
    assert {name for name in vars(PlanStore) if not name.startswith("_")} - reads == set(WRITES)


@pytest.mark.parametrize("write", WRITES)
def test_a_manager_that_does_not_lead_writes_nothing(database: Database, write: str) -> None:
    with pytest.raises(NotLeaderError):
        WRITES[write](PlanStore(database))


def test_the_lease_cannot_be_taken_while_its_holder_writes(database: Database, url: str) -> None:
    """Else the new leader would not see what is committed after it has read."""
    store = leading_store(database)
    with ThreadPoolExecutor(1) as pool:
        with store._writing():
            other = open_database(url, timeout_ms=20_000) if url.startswith("postgresql") else database
            taken = pool.submit(take_lease, other, "two")
            with pytest.raises(TimeoutError):
                taken.result(timeout=0.2)
        assert taken.result(timeout=10) == 2
    if other is not database:
        other.close()


def test_epochs_that_another_database_gave_out_are_left_out(store: PlanStore) -> None:
    store.add(KEY, "first", now_ms=5)
    assert raise_epoch(store, above=7) == 8
    assert raise_epoch(store, above=3) == 9
    assert [(plan.epoch, plan.counted) for plan in store.plans()] == [(9, 9)]
    store.remove(KEY)
    assert store.add(KEY, "first", now_ms=6).counted == 10
