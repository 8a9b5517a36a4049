"""The interface of stream functions: steps of a source's chain that add attributes or inspect rows."""

from __future__ import annotations

from collections.abc import Callable

from siddhi.analysis import model
from siddhi.engine.operators.base.implementations import Implementations
from siddhi.engine.operators.base.operator import Operator
from siddhi.engine.operators.expressions.compiler import ExpressionCompiler

StreamFunctionFactory = Callable[[model.HandlerCall, ExpressionCompiler], Operator]
STREAM_FUNCTIONS: Implementations[StreamFunctionFactory] = Implementations("stream function")
