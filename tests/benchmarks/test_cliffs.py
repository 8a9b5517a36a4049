"""The finder of cliffs knows every function and aggregator."""

from __future__ import annotations

from benchmarks.cliffs.calls import calls
from siddhi.analysis.analyser import analyse
from siddhi.analysis.catalogue import builtin_registry
from siddhi.language.parser import parse
from siddhi.registry import Kind


def test_every_function_and_aggregator_has_a_kind_that_is_an_app() -> None:
    made = list(calls())
    known = [one for one in builtin_registry() if one.kind in (Kind.FUNCTION, Kind.AGGREGATOR)]
    assert len(made) == sum(not one.script_language for one in known)
    for kind in made:
        analyse(parse(kind.app))
