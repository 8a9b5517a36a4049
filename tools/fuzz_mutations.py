"""Inputs that are a little wrong: what makes sense, with something cut, doubled, swapped, spliced or flipped."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

LONGEST = 20_000
_BYTES = (b"\x00", b"\xff", b"\x80", b"\x7f", b"\xff\xff\xff\xff", b"\x00\x00\x00\x80", b"\xdf\xff\xff\xff\xff\xff")
_TEXTS = (b"-1", b"9" * 30, b"{", b"[", b'"', b"\n", b"\xc3", b"\xed\xa0\x80", b"e999", b"<", b"&", b"%", b"*", b"!")
_ODD = (*_BYTES, *_TEXTS)


def mutated(seeds: Sequence[bytes], count: int, seed: int) -> Iterator[bytes]:
    """Yield `count` inputs, the same ones for the same `seed`: mostly damaged `seeds`, now and then nonsense."""
    chance = random.Random(seed)  # noqa: S311 - not a secret
    for _ in range(count):
        if chance.random() < 0.02:
            yield chance.randbytes(chance.randrange(200))
            continue
        data = bytearray(chance.choice(seeds))
        for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
            _damage(data, seeds, chance)
        yield bytes(data[:LONGEST])


def _damage(data: bytearray, seeds: Sequence[bytes], chance: random.Random) -> None:
    place = chance.randrange(len(data) + 1)
    end = min(len(data), place + chance.choice((1, 2, 4, 8, 40)))
    match chance.randrange(8):
        case 0 if place < len(data):
            data[place] ^= 1 << chance.randrange(8)
        case 1 if place < len(data):
            data[place] = chance.randrange(256)
        case 2:
            del data[place:end]
        case 3:
            data[place:place] = data[place:end]
        case 4:
            data[place:end] = chance.choice(_ODD)
        case 5:
            data[place:place] = chance.choice(_ODD)
        case 6:
            other = chance.choice(seeds)
            start = chance.randrange(len(other) + 1)
            data[place:] = other[start:]
        case _ if place < len(data):
            data[place] = (data[place] + chance.choice((1, -1))) % 256
