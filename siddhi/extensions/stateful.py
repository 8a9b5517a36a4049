"""Stream functions with state."""

from __future__ import annotations

from collections.abc import Callable

from siddhi.analysis import model
from siddhi.engine.operators.base.operator import Operator
from siddhi.engine.operators.base.per_instance import PerInstance
from siddhi.engine.operators.expressions.compiler import ExpressionCompiler
from siddhi.engine.operators.stream_functions.stream_function import STREAM_FUNCTIONS


def stateful_stream_function(
    name: str, namespace: str, make: Callable[[model.HandlerCall, ExpressionCompiler], Operator]
) -> None:
    """Make `namespace:name` the stream function that `make` builds, one for each instance within a partition."""

    def build(call: model.HandlerCall, compiler: ExpressionCompiler) -> Operator:
        if compiler.context.partitioned:
            return PerInstance(lambda: make(call, compiler), compiler.context.instance_ranks)
        return make(call, compiler)

    STREAM_FUNCTIONS.register(name, namespace)(build)
