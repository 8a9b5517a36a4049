"""The contract of stream functions: steps of a source's chain that add attributes or look at rows."""

from __future__ import annotations

from collections.abc import Callable

from siddhi.analysis import model
from siddhi.engine.expressions.compiler import ExpressionCompiler
from siddhi.engine.families import Family
from siddhi.engine.operator import Operator

StreamFunctionFactory = Callable[[model.HandlerCall, ExpressionCompiler], Operator]
STREAM_FUNCTIONS: Family[StreamFunctionFactory] = Family("stream function")
