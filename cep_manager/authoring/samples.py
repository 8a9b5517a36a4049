"""Sample plans, each of which shows one feature; they are stored beside this file, and a test compiles them all."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import msgspec

FOLDER = Path(__file__).parent / "sample_plans"
_DESCRIPTION = re.compile(r"@Plan:description\('([^']*)'\)")


class PlanSample(msgspec.Struct, frozen=True):
    """A plan to begin with; `title` says in a few words what it does."""

    name: str
    title: str
    text: str


@functools.cache
def samples() -> tuple[PlanSample, ...]:
    """Return all of them, the simplest first (their files are numbered)."""
    return tuple(_read(file) for file in sorted(FOLDER.glob("*.siddhiql")))


def sample(name: str) -> PlanSample | None:
    """Return the sample of that name."""
    return next((one for one in samples() if one.name == name), None)


def _read(file: Path) -> PlanSample:
    text = file.read_text(encoding="utf-8")
    described = _DESCRIPTION.search(text)
    return PlanSample(file.stem.partition("-")[2], described[1] if described is not None else "", text)
