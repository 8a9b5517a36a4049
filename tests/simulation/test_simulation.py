"""Seeded schedules in which messages are late, lost and repeated, and processes die, hang and return: no rule breaks.

`make simulate` plays as many as one likes.
A schedule that breaks one is printed with its trace and the command that repeats it; its seed goes into seeds.json.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from broken_rules import BROKEN_RULES
from simulate import ALONE, SIMULATORS
from virtual_world import first_broken

SCHEDULES = 1_000
SEEDS = json.loads((Path(__file__).parent / "seeds.json").read_text())


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """What the system would tell of each fault is of no interest."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.thorough
@pytest.mark.parametrize("name", SIMULATORS)
def test_no_schedule_breaks_a_rule(name: str) -> None:
    for seed in range(round(SCHEDULES * SIMULATORS[name].share)):
        SIMULATORS[name].play(seed)


@pytest.mark.parametrize("kept", SEEDS, ids=lambda kept: f"{kept['simulator']}-{kept['seed']}")
def test_a_schedule_that_once_broke_a_rule_does_not_any_more(kept: dict[str, object]) -> None:
    (SIMULATORS | ALONE)[str(kept["simulator"])].play(int(str(kept["seed"])))


@pytest.mark.thorough
@pytest.mark.parametrize("what", BROKEN_RULES)
def test_a_rule_that_is_broken_on_purpose_is_found_out(what: str) -> None:
    broken = BROKEN_RULES[what]
    with broken.way():
        assert first_broken(SIMULATORS[broken.simulator].play, broken.seeds) is not None


@pytest.mark.parametrize("name", SIMULATORS)
def test_the_same_seed_gives_the_same_schedule(name: str) -> None:
    once, again = (SIMULATORS[name].play(11).trace() for _ in range(2))
    assert once == again
    assert once != SIMULATORS[name].play(12).trace()
