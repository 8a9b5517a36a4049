"""Context shared by all passes of one analysis."""

from __future__ import annotations

from dataclasses import dataclass

from siddhi.analysis.expression.calls import CallChecker
from siddhi.analysis.expression.expressions import ExpressionAnalyser
from siddhi.analysis.expression.scope import Scope
from siddhi.analysis.problems import Problems
from siddhi.analysis.symbols import Symbols
from siddhi.registry import Registry


@dataclass(frozen=True)
class Context:
    """The analysis of one app: its registry, symbols and problems so far.

    `dialect_3x` is set for execution plans (`@Plan:name`), which follow Siddhi 3.x where it differs; `playback` is set
    where event time drives the clock.
    """

    registry: Registry
    symbols: Symbols
    problems: Problems
    calls: CallChecker
    dialect_3x: bool
    playback: bool = False

    def expressions(self, scope: Scope) -> ExpressionAnalyser:
        """Return an analyser for expressions in `scope`."""
        return ExpressionAnalyser(scope, self.symbols, self.calls, self.problems)
