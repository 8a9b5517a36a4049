"""Which instance takes which rows."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from topology_builders import bundle, rows_of

from query_plan.model import ALL, GLOBAL, ORIGIN, SHUFFLE, Grouping, fields
from topology.events.bundle import Bundle
from topology.grouping import NULL_HASH, key_hashes, split

ROWS = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 9)), max_size=20)


def shares(grouping: Grouping, rows: list[tuple[int, int]], instances: int, ticket: int = 0) -> list[Bundle | None]:
    return split(bundle(("S", rows), ticket=ticket), {"S": grouping}, instances, every_instance=True)


def content(share: Bundle | None) -> list[tuple[int, int]]:
    assert share is not None
    return [row for _, batch in share.batches for row in rows_of(batch)]


@pytest.mark.parametrize(
    ("column", "hashes"),
    [
        (pa.array(["JFK", "EWR", ""]), [3311509919, 4186926450, 0]),
        (pa.array([1, -1], pa.int32()), [2212294583, 808273962]),
        (pa.array([1, 2**40], pa.int64()), [2212294583, 1057089833]),
        (pa.array([1.0, 0.1]), [2212294583, 2180199828]),
        (pa.array([True, False]), [4261170317, 734881840]),
        (pa.array(["a", None, "null"]), [3904355907, NULL_HASH, NULL_HASH]),
        (pa.array([1, None], pa.int32()), [2212294583, NULL_HASH]),
        (pa.array([0.0, -0.0, float("nan"), -float("nan")]), [4108050209, 4108050209, 1810114945, 1810114945]),
        (pa.array([-0.0, 1.0], pa.float32()), [4108050209, 2212294583]),
    ],
)
def test_the_hash_of_a_key_is_the_same_for_ever(column: pa.Array, hashes: list[int]) -> None:
    """Golden values: hosts and versions that disagree would split a key's state."""
    assert key_hashes(column).tolist() == hashes


def test_long_texts_are_hashed_as_short_ones() -> None:
    texts = ["x" * 40_000, "", "y", "x" * 40_000]
    whole = key_hashes(pa.array([*texts, None])).tolist()
    assert whole == [*(key_hashes(pa.array([text])).tolist()[0] for text in texts), NULL_HASH]


@given(ROWS, st.integers(1, 5))
@settings(deadline=None)
def test_by_key_every_row_is_in_exactly_one_share_in_order_and_a_key_is_never_split(
    rows: list[tuple[int, int]], instances: int
) -> None:
    parts = [content(share) for share in shares(fields("number"), rows, instances)]
    assert sorted(row for part in parts for row in part) == sorted(rows)
    owners = {}
    for index, part in enumerate(parts):
        assert part == [row for row in rows if row in part]
        for _, number in part:
            assert owners.setdefault(number, index) == index


@given(ROWS, ROWS)
@settings(deadline=None)
def test_a_keys_owner_does_not_depend_on_what_else_is_in_the_batch(
    one: list[tuple[int, int]], other: list[tuple[int, int]]
) -> None:
    together = [set(content(share)) for share in shares(fields("number"), one + other, 3)]
    apart = [set(content(share)) for share in shares(fields("number"), one, 3)]
    assert all(part <= whole for part, whole in zip(apart, together, strict=True))


@given(ROWS, st.integers(1, 4), st.integers(0, 9))
@settings(deadline=None)
def test_all_gives_everyone_everything_and_global_the_first(
    rows: list[tuple[int, int]], instances: int, ticket: int
) -> None:
    assert [content(share) for share in shares(ALL, rows, instances, ticket)] == [rows] * instances
    assert [content(share) for share in shares(GLOBAL, rows, instances, ticket)] == [rows] + [[]] * (instances - 1)


@pytest.mark.parametrize("step", [1, 2, 3])
def test_shuffle_gives_each_ticket_to_one_instance_and_spreads_them_evenly(step: int) -> None:
    taken = [0, 0, 0]
    for ticket in range(0, 900 * step, step):
        parts = split(bundle(("S", [(1, 1)]), ticket=ticket), {"S": SHUFFLE}, 3, every_instance=False)
        (index,) = [index for index, part in enumerate(parts) if part is not None]
        taken[index] += 1
    assert min(taken) > 250


def test_by_origin_all_tickets_of_an_instance_go_one_way_and_instances_of_a_stage_different_ways() -> None:
    taken: dict[str, set[int]] = {}
    for origin in ("rooms#0", "rooms#1", "floors#0"):
        for ticket in range(9):
            parts = split(bundle(("S", [(1, 1)]), origin=origin, ticket=ticket), {"S": ORIGIN}, 2, every_instance=False)
            taken.setdefault(origin, set()).update(index for index, part in enumerate(parts) if part is not None)
    assert all(len(places) == 1 for places in taken.values())
    assert taken["rooms#0"] != taken["rooms#1"]


def test_where_order_matters_an_instance_that_gets_no_rows_still_gets_the_ticket_and_the_watermark() -> None:
    whole = bundle(("S", [(1, 1)]), ticket=1, watermark_ms=5)
    parts = split(whole, {"S": SHUFFLE}, 2, every_instance=True)
    assert [content(part) for part in parts] == [[], [(1, 1)]]
    assert all(part is not None and (part.ticket, part.watermark_ms) == (1, 5) for part in parts)


def test_streams_that_the_stage_does_not_take_are_left_out() -> None:
    for instances in (1, 2):
        parts = split(bundle(("S", [(1, 1)]), ("T", [(2, 2)])), {"T": GLOBAL, "U": ALL}, instances, every_instance=True)
        assert content(parts[0]) == [(2, 2)]


def test_streams_of_one_stage_may_be_shared_in_different_ways() -> None:
    rows = [(1, 1), (2, 2)]
    parts = split(bundle(("S", rows), ("T", rows), ticket=1), {"S": ALL, "T": SHUFFLE}, 2, every_instance=True)
    assert [content(part) for part in parts] == [rows, rows + rows]
