"""Messages to frames and back; whatever else comes is a DecodeError."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_examples import examples

from cep_common.errors import DecodeError
from cep_common.ids import Endpoint, PlanKey
from cep_common.protocol.codec import MAGIC, Envelope, decode, encode
from cep_common.protocol.links import Data
from cep_common.protocol.message_types import message_types
from cep_common.protocol.registry import Message, RegisterEndpoint, Rejected

MESSAGES = st.sampled_from(sorted(message_types())).flatmap(lambda name: of_type(message_types()[name]))


def of_type(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a message's field type, within its bounds."""
    return _of(msgspec.inspect.type_info(kind))


PLAIN: dict[type[msgspec.inspect.Type], st.SearchStrategy[Any]] = {
    msgspec.inspect.StrType: st.text(max_size=8),
    msgspec.inspect.BytesType: st.binary(max_size=8),
    msgspec.inspect.BoolType: st.booleans(),
    msgspec.inspect.NoneType: st.none(),
}


def _of(info: msgspec.inspect.Type) -> st.SearchStrategy[Any]:
    match info:
        case msgspec.inspect.StructType(cls=cls, fields=fields):
            return st.builds(cls, **{field.name: _of(field.type) for field in fields})
        case msgspec.inspect.IntType(ge=ge, gt=_, le=le, lt=lt):
            highest = le if le is not None else lt - 1 if lt is not None else 2**63 - 1
            return st.integers(-(2**63) if ge is None else ge, highest)
        case msgspec.inspect.FloatType(gt=gt, le=le):
            return st.floats(gt, le, exclude_min=gt is not None, allow_nan=False)
        case msgspec.inspect.LiteralType(values=values):
            return st.sampled_from(values)
        case msgspec.inspect.UnionType(types=types):
            return st.one_of(*(_of(one) for one in types))
        case msgspec.inspect.VarTupleType(item_type=item):
            return st.lists(_of(item), max_size=2).map(tuple)
        case msgspec.inspect.TupleType(item_types=items):
            return st.tuples(*(_of(one) for one in items))
        case msgspec.inspect.DictType(key_type=key, value_type=value):
            return st.dictionaries(_of(key), _of(value), max_size=2)
    if type(info) not in PLAIN:
        raise TypeError(f"a message field of a type that no test knows: {info}")
    return PLAIN[type(info)]


@pytest.mark.thorough
@pytest.mark.parametrize("name", sorted(message_types()))
def test_every_message_type_comes_back_as_it_was_sent(name: str) -> None:
    @given(message=of_type(message_types()[name]), correlation=st.binary(max_size=9), bodies=st.lists(st.binary()))
    @settings(max_examples=examples(15), deadline=None)
    def comes_back(message: Message, correlation: bytes, bodies: list[bytes]) -> None:
        assert decode(encode(message, correlation, bodies)) == Envelope(message, correlation, tuple(bodies))

    comes_back()


def test_the_header_says_magic_type_and_correlation_before_the_body() -> None:
    (header,) = encode(Rejected("stale-epoch", "too late"), b"7")
    assert header.startswith(b"CEP1\x08rejected\x017")


@given(st.lists(st.binary(max_size=40), max_size=6))
@settings(max_examples=examples(200), deadline=None)
def test_any_frames_give_an_envelope_or_a_decode_error(frames: list[bytes]) -> None:
    assert_decodes_or_refuses(frames)


@given(
    st.sampled_from(sorted(message_types())), st.binary(max_size=60), st.none() | st.integers(0, 2**64 - 1) | st.text()
)
@settings(max_examples=examples(200), deadline=None)
def test_any_body_of_a_known_type_gives_an_envelope_or_a_decode_error(name: str, body: bytes, other: object) -> None:
    assert_decodes_or_refuses([header_of(name, body)])
    assert_decodes_or_refuses([header_of(name, msgspec.msgpack.encode(other))])


@pytest.mark.thorough
@given(MESSAGES, st.data())
@settings(max_examples=examples(200), deadline=None)
def test_a_damaged_body_gives_an_envelope_or_a_decode_error(message: Message, data: st.DataObject) -> None:
    header = bytearray(encode(message)[0])
    header[data.draw(st.integers(0, len(header) - 1))] = data.draw(st.integers(0, 255))
    assert_decodes_or_refuses([bytes(header)])
    assert_decodes_or_refuses([bytes(header)[: data.draw(st.integers(0, len(header)))]])


def test_nesting_beyond_any_message_is_a_decode_error() -> None:
    with pytest.raises(DecodeError, match="plans-listed"):
        decode([header_of("plans-listed", b"\x81\xa5plans" + b"\x91" * 100_000)])


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        (Data(stream="S", sequence=0, rows=1, watermark_ms=0), "sequence"),
        (Data(stream="S", sequence=1, rows=-1, watermark_ms=0), "rows"),
        (Data(stream="S", sequence=1, rows=2**31, watermark_ms=0), "rows"),
        (RegisterEndpoint("boss", PlanKey(1, "p"), 1, "i", Endpoint("h", 1)), "role"),  # type: ignore[arg-type]
    ],
)
def test_a_value_out_of_its_bounds_is_refused_with_the_field_named(message: Message, fault: str) -> None:
    with pytest.raises(DecodeError, match=fault):
        decode(encode(message))


def test_an_unknown_field_is_refused_so_that_versions_do_not_mix_unnoticed() -> None:
    body = msgspec.msgpack.encode({"code": "c", "reason": "r", "since": 1})
    with pytest.raises(DecodeError, match="since"):
        decode([header_of("rejected", body)])


def test_an_unknown_type_is_named_but_not_at_any_length() -> None:
    with pytest.raises(DecodeError) as caught:
        decode([header_of("x" * 255, b"")])
    assert len(caught.value.message) < 100


def header_of(name: str, body: bytes) -> bytes:
    return MAGIC + bytes([len(name)]) + name.encode() + b"\x00" + body


def assert_decodes_or_refuses(frames: list[bytes]) -> None:
    """Any other error than DecodeError fails the test."""
    with suppress(DecodeError):
        assert isinstance(decode(frames).message, Message)
