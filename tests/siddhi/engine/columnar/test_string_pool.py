"""The pool of an app's strings: codes for texts and back."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from siddhi.engine.columnar.state_tree import decode_state, encode_state
from siddhi.engine.columnar.strings import NULL_CODE, StringPool, take_strings

TEXTS = st.lists(st.none() | st.text(max_size=40).map(lambda text: text.encode("utf-8", "replace").decode()))


@settings(deadline=None)  # the first call may compile
@given(TEXTS, TEXTS)
def test_equal_strings_have_equal_codes_however_they_come(first: list[str | None], second: list[str | None]) -> None:
    pool = StringPool()
    codes = pool.encode(pa.array(first, pa.utf8())).tolist() + pool.codes(second).tolist()
    known: dict[str | None, int] = {None: NULL_CODE}
    for text, code in zip([*first, *second], codes, strict=True):
        assert known.setdefault(text, len(known) - 1) == code
    assert len(pool) == len(known) - 1
    assert pool.decode(np.array(codes, dtype=np.int64)).to_pylist() == [*first, *second]
    assert pool.texts(np.array(codes, dtype=np.int64)) == [*first, *second]


def test_a_slice_of_an_array_is_read_from_its_own_place() -> None:
    array = pa.array(["a", None, "bb", "a name of more than eight bytes", "", None, "a"])
    pool = StringPool()
    for start in range(8):
        codes = pool.encode(array.slice(start))
        assert pool.decode(codes).to_pylist() == array.slice(start).to_pylist()
    assert pool.encode(pa.array([], pa.utf8())).tolist() == []
    assert pool.encode(pa.array([None, None], pa.utf8())).tolist() == [NULL_CODE, NULL_CODE]


def test_strings_that_differ_in_one_byte_have_codes_of_their_own() -> None:
    base = "x" * 23
    texts = [base, *(base[:place] + "y" + base[place + 1 :] for place in range(23)), base + "x", base[:-1]]
    pool = StringPool()
    assert pool.encode(pa.array(texts)).tolist() == list(range(len(texts)))


def test_the_pool_grows_while_an_array_is_read() -> None:
    texts = [f"name {number % 70_000}" for number in range(100_000)]
    pool = StringPool()
    codes = pool.encode(pa.array(texts))
    assert len(pool) == 70_000
    assert codes.tolist() == [number % 70_000 for number in range(100_000)]
    assert pool.text(69_999) == "name 69999"


def test_compacting_keeps_what_is_live_under_new_codes() -> None:
    pool = StringPool()
    codes = pool.encode(pa.array([f"name {number}" for number in range(1_000)]))
    remap = pool.compact(codes[::10])
    assert len(pool) == 100
    assert pool.texts(remap[codes[::10]]) == [f"name {number}" for number in range(0, 1_000, 10)]
    assert set(remap[codes[1::10]].tolist()) == {NULL_CODE}
    assert remap[NULL_CODE] == NULL_CODE
    assert pool.code("name 10") == remap[10]
    assert pool.code("new") == 100


def test_a_pool_that_is_compacted_keeps_the_room_that_strings_to_come_need() -> None:
    pool = StringPool()
    for start in range(0, 60_000, 20_000):
        codes = pool.encode(pa.array([f"name {number:05}" for number in range(start, start + 20_000)]))
        full = pool.bytes_held
        remap = pool.compact(codes[:100], to_come=19_900)
        assert pool.bytes_held <= full
        kept = pool.bytes_held
        assert pool.texts(remap[codes[:100]]) == [f"name {number:05}" for number in range(start, start + 100)]
        again = pool.encode(pa.array([f"name {number:05}" for number in range(start, start + 20_000)]))
        assert again.tolist() == list(range(20_000))
        assert pool.bytes_held == kept
        pool.compact(again[:100])
        assert pool.bytes_held < kept / 10


def test_a_restored_pool_knows_its_strings() -> None:
    pool = StringPool()
    pool.encode(pa.array([f"name {number}" for number in range(3_000)]))
    other = StringPool()
    other.restore(decode_state(b"".join(encode_state(pool.snapshot()))))
    assert other.encode(pa.array(["name 2999", "name 0", "new"])).tolist() == [2_999, 0, 3_000]


def test_a_lone_surrogate_becomes_a_question_mark() -> None:
    pool = StringPool()
    code = pool.code("a\ud800b")
    assert pool.text(code) == "a?b"
    assert pool.decode(np.array([code])).to_pylist() == ["a?b"]


@settings(deadline=None)
@given(TEXTS, st.data())
def test_strings_are_taken_as_arrow_takes_them(texts: list[str | None], data: st.DataObject) -> None:
    array = pa.array(texts, pa.utf8()).slice(data.draw(st.integers(0, len(texts))))
    places = st.lists(st.integers(0, len(array) - 1)) if len(array) else st.just([])
    positions = np.array(data.draw(places), dtype=np.int64)
    taken = take_strings(array, positions)
    taken.validate(full=True)
    assert taken.to_pylist() == array.take(pa.array(positions)).to_pylist()
