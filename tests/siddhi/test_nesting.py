"""Objects as JSON texts, and their maximum nesting, at the limit and one level beyond it."""

from __future__ import annotations

import pytest

from siddhi.nesting import DEEPEST, TOO_DEEP, ObjectError, nests_too_deeply, read_object, whole_text, write_object


def lists(levels: int) -> str:
    return "[" * levels + "]" * levels


def maps(levels: int) -> str:
    return '{"a":' * levels + "1" + "}" * levels


@pytest.mark.parametrize("text", [lists, maps])
def test_an_object_may_nest_to_the_bound_and_no_deeper(text) -> None:  # type: ignore[no-untyped-def]
    assert not nests_too_deeply(read_object(text(DEEPEST)))
    for levels in (DEEPEST + 1, 500, 100_000):
        for deep in (text(levels), text(levels).encode()):
            with pytest.raises(ObjectError, match=TOO_DEEP):
                read_object(deep)


def test_brackets_side_by_side_or_in_texts_do_not_nest() -> None:
    assert read_object("[" + ",".join(["[{}]"] * 1_000) + "]") == [[{}]] * 1_000
    assert read_object(f'"{lists(1_000)}"') == lists(1_000)


@pytest.mark.parametrize("text", ["", "a", b"\xff", "{", "1 2"])
def test_what_is_no_json_is_no_object(text: str | bytes) -> None:
    with pytest.raises(ObjectError, match="not JSON"):
        read_object(text)


def test_sets_nest_too_and_what_stands_in_several_places_is_looked_at_once() -> None:
    value: object = 1
    for _ in range(DEEPEST // 2):
        value = [frozenset([1]), {"a": value, "b": value}]
    assert not nests_too_deeply(value)
    assert nests_too_deeply([value])


def test_an_object_is_written_with_any_keys_and_any_texts() -> None:
    assert write_object({"a": [1, None, {"b": 2.5}]}) == b'{"a":[1,null,{"b":2.5}]}'
    assert write_object([{None: {True: 1}}, ({False: 2},)]) == b'[{"null":{"true":1}},[{"false":2}]]'
    assert read_object(write_object({"\ud83d": "a\ude00b"})) == {"?": "a?b"}
    with pytest.raises(TypeError):
        write_object({None: object()})


def test_pairs_of_surrogates_are_the_letters_that_they_are() -> None:
    assert whole_text("a\ud83d\ude00\u00e9") == "a\U0001f600\u00e9"
    assert whole_text("\ude00\ud83d") == "??"
