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
    """Register a stream function that keeps state.

    Args:
        name: Name as declared.
        namespace: Namespace as declared.
        make: Builds the operator of one call. Within a partition it is called once for each instance, so that instances
            share no state.
    """

    def build(call: model.HandlerCall, compiler: ExpressionCompiler) -> Operator:
        if compiler.context.partitioned:
            return PerInstance(lambda: make(call, compiler), compiler.context.instance_ranks)
        return make(call, compiler)

    STREAM_FUNCTIONS.register(name, namespace)(build)
