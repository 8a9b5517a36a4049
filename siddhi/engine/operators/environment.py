"""The tables, named windows and aggregations that the queries of an app share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from siddhi.analysis import model
from siddhi.analysis.expression.walk import walk
from siddhi.engine.operators.expressions.compiler import ExpressionCompiler, table_columns
from siddhi.engine.operators.expressions.evaluation import ExpressionNode
from siddhi.engine.operators.expressions.operators import decision
from siddhi.engine.operators.incremental_aggregation.aggregation import Aggregation
from siddhi.engine.operators.named_window import NamedWindow
from siddhi.engine.operators.tables.careful import CarefulMatcher, CarefulMembership
from siddhi.engine.operators.tables.matching import InTableNode, RowMatcher
from siddhi.engine.operators.tables.table import Table


@dataclass(slots=True)
class Environment:
    """Tables, named windows and aggregations by id.

    `looked_into` collects those that the query under construction reads.
    """

    tables: Mapping[str, Table]
    windows: Mapping[str, NamedWindow]
    aggregations: dict[str, Aggregation] = field(default_factory=dict)
    looked_into: set[str] = field(default_factory=set)
    looked_into_carefully: set[str] = field(default_factory=set)
    """Those that it reads with a condition that may fail or keeps state."""

    def begin_query(self) -> None:
        """Begin another query, which has read nothing yet."""
        self.looked_into, self.looked_into_carefully = set(), set()

    def in_table(self, expression: model.InTable, compiler: ExpressionCompiler) -> ExpressionNode:
        """Return the node of `condition in table` for the query under construction.

        Siddhi reads no row of a table with a key or an index if the condition requires none.
        """
        table = self.tables[expression.table]
        if table.has_index and not any(isinstance(part, model.TableValue) for part in walk(expression.condition)):
            return decision(compiler.compile(expression.condition))
        self.looked_into.add(expression.table)
        inner = compiler.afresh()
        careful = CarefulMatcher.if_needed(expression.condition, table, inner)
        node: ExpressionNode
        if careful is None:
            node = InTableNode(RowMatcher(expression.condition, table, inner))
        else:
            self.looked_into_carefully.add(expression.table)
            node = CarefulMembership(careful)
        prefix = table_columns(expression.table)
        compiler.columns |= {name: type_ for name, type_ in inner.columns.items() if not name.startswith(prefix)}
        return node
