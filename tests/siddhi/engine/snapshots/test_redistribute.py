"""State without a key is reported, or stays where it is.

tests/topology/state/test_redistribution.py tests that the results do not change.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from siddhi.analysis.analyser import analyse
from siddhi.engine.app_runtime import AppRuntime
from siddhi.engine.migration.rescale import KeyShare, adopt, redistribute
from siddhi.errors import SnapshotError
from siddhi.language.parser import parse

HEAD = "@app:playback define stream S (k string, v int); define table T (k string, v int);"
KEYED = "partition with (k of S) begin from S#window.length(2) select k, sum(v) as v insert into O; end;"


def runtime(text: str) -> AppRuntime:
    return AppRuntime(analyse(parse(HEAD + text)))


def fed(text: str, *keys: str) -> AppRuntime:
    made = runtime(text)
    made.start(0)
    for time, key in enumerate(keys, start=1):
        columns = {"_timestamp": pa.array([time], pa.int64()), "k": [key], "v": pa.array([time], pa.int32())}
        made.send("S", pa.record_batch(columns))
    return made


def shared_out(text: str, states: list[AppRuntime], count: int, letters: int | None = None) -> list[AppRuntime]:
    """Return `count` instances with the state of `states`: 'a…' belongs to the first, 'b…' to the second."""

    def first_letter(keys: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.array([(ord(key[0]) - ord("a")) % (letters or count) for key in keys.to_pylist()], dtype=np.int64)

    shares = {"S": KeyShare("k", first_letter)}
    snapshots = redistribute([state.snapshot() for state in states], [analyse(parse(HEAD + text))] * count, shares)
    made = [runtime(text) for _ in snapshots]
    for one, snapshot in zip(made, snapshots, strict=True):
        one.restore(snapshot)
    return made


def instances(one: AppRuntime) -> set[str]:
    return set(one.state.places[0].instances.keys()[0])


def test_each_new_instance_has_its_own_keys_and_only_their_strings() -> None:
    text = KEYED.replace("sum(v)", "distinctCount(k)")
    old = [fed(text, "a1", "b1", "a2"), fed(text, "b2", "b3")]
    first, second = shared_out(text, old, 2)
    assert (instances(first), instances(second)) == ({"a1", "a2"}, {"b1", "b2", "b3"})
    assert first.statistics().strings == 2
    (third,) = shared_out(text, [first, second], 1)
    assert instances(third) == {"a1", "a2", "b1", "b2", "b3"}


def test_state_that_goes_back_and_forth_does_not_grow() -> None:
    one = [fed(KEYED, *(f"{'ab'[number % 2]}{number}" for number in range(40)))]
    sizes = [len(one[0].snapshot())]
    for _ in range(4):
        one = shared_out(KEYED, shared_out(KEYED, one, 2), 1)
        sizes.append(len(one[0].snapshot()))
    assert len(instances(one[0])) == 40
    assert max(sizes) == sizes[0]
    assert len(set(sizes[1:])) == 1


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("@info(name='q') from S insert into T;", "table T"),
        ("@info(name='q') from S#window.length(2) select k, v insert into O;", "query q"),
        ("@info(name='q') from S select sum(v) as v insert into O;", "query q"),
        ("@info(name='q') from S select v, count() as c group by v insert into O;", "query q"),
        ("@info(name='q') from S select k, v group by k having sum(v) > 0 insert into O;", "query q"),
        ("@info(name='q') from every e1=S -> e2=S select e1.v insert into O;", "query q"),
    ],
)
def test_state_that_no_key_owns_is_refused_and_named(text: str, part: str) -> None:
    with pytest.raises(SnapshotError, match=part) as caught:
        shared_out(text, [fed(text, "a1")], 2)
    assert caught.value.problems[0].code == "snapshot-not-by-key"


def test_queries_without_state_and_empty_tables_stand_in_no_ones_way() -> None:
    text = " ".join(("from S[v > 1] select k, v insert into P;", "from S[v < 0] insert into T;", KEYED))
    first, second = shared_out(text, [fed(text, "a1", "b1")], 2)
    assert (instances(first), instances(second)) == ({"a1"}, {"b1"})


def test_a_key_that_two_instances_have_is_refused() -> None:
    with pytest.raises(SnapshotError, match="several instances") as caught:
        shared_out(KEYED, [fed(KEYED, "a1"), fed(KEYED, "a1")], 1)
    assert caught.value.problems[0].code == "snapshot-not-by-key"


def test_a_key_of_an_instance_that_is_not_there_is_an_error_and_not_lost() -> None:
    with pytest.raises(ValueError, match="2 instances"):
        shared_out(KEYED, [fed(KEYED, "a1", "c1")], 2, letters=3)


def test_instances_of_another_app_are_refused() -> None:
    with pytest.raises(SnapshotError) as caught:
        shared_out(KEYED, [fed(KEYED.replace("length(2)", "length(3)"), "a1")], 1)
    assert caught.value.problems[0].code == "snapshot-of-another-app"


def test_what_an_edited_app_has_beside_its_keys_begins_at_the_latest_clock() -> None:
    old = [fed(KEYED, "a1", "b1"), fed(KEYED, "a2", "a2", "a2")]
    text = "define trigger Beat at every 10 milliseconds;" + KEYED
    app = analyse(parse(HEAD + text))
    with pytest.raises(SnapshotError) as refused:
        redistribute([one.snapshot() for one in old], [app], {})
    assert refused.value.problems[0].code == "snapshot-of-another-app"
    adopted = adopt([one.snapshot() for one in old], [app, app])
    assert (adopted.left, [str(part) for part in adopted.begun]) == ((), ["trigger Beat"])
    share = KeyShare("k", lambda keys: np.zeros(len(keys), np.int64))
    (snapshot,) = redistribute(adopted.snapshots, [app], {"S": share}, adopted.begun)
    new = runtime(text)
    new.restore(snapshot)
    assert instances(new) == {"a1", "b1", "a2"}
    assert new.next_deadline_ms() == 3 + 10
