"""Ways of playing a case that must not change its answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from siddhi.engine.app_runtime import AppRuntime
from siddhi.testing import Case, record_answers, restored, run_case
from tools.differential.draw import Draw
from tools.differential.reference import no_fast_paths, slow_forms

Play = Callable[[Case], list[str]]
"""Plays a case that has an expectation, and returns what differs."""


def _played(case: Case, rows: int | None, between: Callable[[AppRuntime], AppRuntime] | None = None) -> list[str]:
    return list(run_case(case, rows, between).differences)


def _compacted(runtime: AppRuntime) -> AppRuntime:
    """Return the app after its strings have got other codes."""
    runtime.pool.codes(f"unused string {number}" for number in range(len(runtime.pool), len(runtime.pool) + 3))
    runtime.compact()
    return runtime


def _slow(case: Case, rows: int | None) -> list[str]:
    with slow_forms():
        return _played(case, rows)


def _without_fast_paths(case: Case) -> list[str]:
    with no_fast_paths():
        return _played(case, 1)


VARIANTS: Mapping[str, Play] = {
    "one event a batch": lambda case: _played(case, 1),
    "two events a batch": lambda case: _played(case, 2),
    "three events a batch": lambda case: _played(case, 3),
    "restored between all events": lambda case: _played(case, 1, restored),
    "restored between batches of two": lambda case: _played(case, 2, restored),
    "other codes of strings": lambda case: _played(case, 2, _compacted),
    "slow reference": lambda case: _slow(case, None),
    "slow reference, one event a batch": lambda case: _slow(case, 1),
    "no fast paths": _without_fast_paths,
}


def chosen_variants(draw: Draw, count: int) -> list[str]:
    """Return the names of `count` of the ways."""
    return draw.some(list(VARIANTS), count, count)


def as_case(document: Mapping[str, Any], expect: Mapping[str, Any] | None = None) -> Case:
    """Return the case of a document, with another expectation if there is one."""
    whole = dict(document) if expect is None else {**document, "expect": expect}
    return Case(whole["id"], whole["feature"], whole["app"], whole)


def own_answers(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the engine answers when events go in batches as large as they can be."""
    return record_answers(as_case(document))


def changed_answers(document: Mapping[str, Any], names: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield the ways among `names` in which the engine answers otherwise than in large batches, and what differs."""
    case = as_case(document, own_answers(document))
    for name in names:
        differences = VARIANTS[name](case)
        if differences:
            yield name, differences


def told(document: Mapping[str, Any]) -> str:
    """Return the document as a line of a case file, in which NaN and infinities are texts."""
    return json.dumps(_writable(document), ensure_ascii=False)


def _writable(value: Any) -> Any:
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):  # noqa: PLR0124 - NaN
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    if isinstance(value, Mapping):
        return {key: _writable(item) for key, item in value.items()}
    return [_writable(item) for item in value] if isinstance(value, list | tuple) else value
