"""The engine implements exactly the names that the language declares."""

from __future__ import annotations

import pytest

import siddhi.engine.builtins  # noqa: F401 - fills the families
from siddhi.analysis.analyser import analyse
from siddhi.analysis.catalogue import builtin_registry
from siddhi.engine.app_runtime import AppRuntime
from siddhi.engine.operators.base.implementations import Implementations
from siddhi.engine.operators.expressions.aggregation import AGGREGATORS
from siddhi.engine.operators.expressions.compiler import FUNCTIONS
from siddhi.engine.operators.stream_functions.stream_function import STREAM_FUNCTIONS
from siddhi.engine.operators.windows.base.window import WINDOWS
from siddhi.errors import SiddhiRuntimeError
from siddhi.language.parser import parse
from siddhi.parameters import takes
from siddhi.registry import Declaration, Kind

FAMILIES: dict[Kind, Implementations[object]] = {
    Kind.WINDOW: WINDOWS,
    Kind.AGGREGATOR: AGGREGATORS,
    Kind.FUNCTION: FUNCTIONS,
    Kind.STREAM_FUNCTION: STREAM_FUNCTIONS,
}  # type: ignore[dict-item]


@pytest.mark.parametrize("kind", list(FAMILIES))
def test_every_implemented_name_is_declared_and_every_declared_one_implemented(kind: Kind) -> None:
    declared = {(d.namespace, d.name) for d in builtin_registry() if d.kind is kind and not d.namespace}
    implemented = {member for member in FAMILIES[kind] if not member[0]}
    assert implemented == declared


def test_a_declared_name_that_is_not_implemented_is_refused_when_the_app_is_built_with_its_place() -> None:
    registry = builtin_registry()
    registry.add(Declaration(Kind.WINDOW, "later", "declared only", (takes(),)))
    app = analyse(parse("define stream S (v int);\nfrom S#window.later() select v insert into O;"), registry)
    with pytest.raises(SiddhiRuntimeError) as caught:
        AppRuntime(app)
    (problem,) = caught.value.problems
    assert problem.code == "not-supported"
    assert "later" in problem.message
    assert problem.span is not None
    assert problem.span.line == 2
