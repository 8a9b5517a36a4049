"""What reads bytes from outside: any bytes give an answer or a typed error, those that once did not above all."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tools.fuzz_mutations import mutated
from tools.fuzz_targets import TARGETS
from tools.fuzz_targets.messages import packed, unpacked

CORPUS = Path(__file__).parent / "fuzz_corpus"
"""A folder for each target, with inputs that it once broke on."""

MUTATIONS = 40


@pytest.mark.parametrize("target", TARGETS)
def test_any_bytes_give_an_answer_or_a_typed_error(target: str) -> None:
    seeds = list(itertools.islice(TARGETS[target].seeds(), 8))
    for data in (*seeds, b"", *mutated(seeds, MUTATIONS, seed=7)):
        TARGETS[target].run(data)


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*/*")), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_an_input_that_broke_something_once_does_not_any_more(path: Path) -> None:
    TARGETS[path.parent.name].run(path.read_bytes())


def test_mutations_are_the_same_for_the_same_seed_and_differ_from_what_they_come_of() -> None:
    seeds = [b"one input", b"another input"]
    inputs = list(mutated(seeds, 200, seed=3))
    assert inputs == list(mutated(seeds, 200, seed=3))
    assert len(set(inputs) - set(seeds)) > 150


def test_frames_come_apart_as_they_were_put_together() -> None:
    frames = [b"", b"a", b"bc" * 300]
    assert list(unpacked(packed(frames))) == frames
    assert list(unpacked(b"\xff\xffabc")) == [b"abc"]
