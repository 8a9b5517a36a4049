"""The engine without its compiled forms and fast paths: slower, and plain enough to be the reference for these."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

from siddhi.engine.scheduling.maintenance import Maintenance


@contextmanager
def slow_forms() -> Iterator[None]:
    """Build apps with the pattern machine that goes event by event, windows and selections apart, and no fast paths."""
    with ExitStack() as patches:
        patches.enter_context(patch("siddhi.engine.operators.patterns.build.plan_chain", _nothing))
        patches.enter_context(patch("siddhi.engine.operators.patterns.build._compiled", _nothing))
        patches.enter_context(patch("siddhi.engine.planner.query.fused_selection", _nothing))
        patches.enter_context(no_fast_paths())
        yield


@contextmanager
def no_fast_paths() -> Iterator[None]:
    """Build apps in which few events go the same way as many."""
    with patch.object(Maintenance, "fast_path", _nothing):
        yield


def _nothing(*_arguments: object, **_named: object) -> None:
    return None
