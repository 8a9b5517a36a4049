"""The result of analysis: every stream with its schema, every name resolved, every expression typed.

The engine and the planner use only this model; they do not read the text or look up names. Each node keeps its syntax
node, for positions.

    schema       names and types of attributes
    expressions  expressions, resolved and typed
    inputs       a source with its handlers, a join, a state machine
    queries      what is selected, and where it goes
    app          the app: partitions, streams, tables, windows, aggregations; queries from outside
"""

from siddhi.analysis.model.app import (
    AnalysedAggregation,
    AnalysedApp,
    AnalysedOnDemandQuery,
    AnalysedPartition,
    AnalysedRetention,
    AnalysedStream,
    AnalysedTable,
    AnalysedWindow,
    PartitionKey,
)
from siddhi.analysis.model.expressions import (
    Aggregate,
    AnalysedFunction,
    Arithmetic,
    AttributeValue,
    Call,
    Comparison,
    ConstantValue,
    EventReference,
    InTable,
    IsEmptySlot,
    IsNullValue,
    Logical,
    Negation,
    OutputValue,
    TableValue,
    TypedExpression,
)
from siddhi.analysis.model.inputs import (
    BoundScope,
    EveryScope,
    FilterStep,
    HandlerCall,
    Join,
    LogicalPair,
    PatternElement,
    PatternStep,
    QueryInput,
    SourceInput,
    SourceKind,
    StateMachine,
)
from siddhi.analysis.model.queries import (
    AnalysedOutput,
    AnalysedQuery,
    AnalysedSelection,
    Assignment,
    OutputExpression,
    SortKey,
    TargetKind,
)
from siddhi.analysis.model.schema import (
    Schema,
)

__all__ = [
    "Aggregate",
    "AnalysedAggregation",
    "AnalysedApp",
    "AnalysedFunction",
    "AnalysedOnDemandQuery",
    "AnalysedOutput",
    "AnalysedPartition",
    "AnalysedQuery",
    "AnalysedRetention",
    "AnalysedSelection",
    "AnalysedStream",
    "AnalysedTable",
    "AnalysedWindow",
    "Arithmetic",
    "Assignment",
    "AttributeValue",
    "BoundScope",
    "Call",
    "Comparison",
    "ConstantValue",
    "EventReference",
    "EveryScope",
    "FilterStep",
    "HandlerCall",
    "InTable",
    "IsEmptySlot",
    "IsNullValue",
    "Join",
    "Logical",
    "LogicalPair",
    "Negation",
    "OutputExpression",
    "OutputValue",
    "PartitionKey",
    "PatternElement",
    "PatternStep",
    "QueryInput",
    "Schema",
    "SortKey",
    "SourceInput",
    "SourceKind",
    "StateMachine",
    "TableValue",
    "TargetKind",
    "TypedExpression",
]
