"""The handlers of one source: filters, stream functions, the window, and the handlers after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from siddhi.analysis import model
from siddhi.engine.operators.base.operator import Operator, OperatorContext
from siddhi.engine.operators.base.per_instance import PerInstance
from siddhi.engine.operators.expressions.compiler import ExpressionCompiler, MembershipTest
from siddhi.engine.operators.filters import Filter
from siddhi.engine.operators.stream_functions.stream_function import STREAM_FUNCTIONS
from siddhi.engine.operators.windows.base.window import WINDOWS, WindowContext
from siddhi.engine.operators.windows.keyed.window import KeyedWindow
from siddhi.language.ast import AttributeType


def build_chain(
    source: model.SourceInput,
    needed: Mapping[str, AttributeType],
    context: OperatorContext,
    *,
    expired: bool,
    selected: tuple[str, ...],
    in_table: MembershipTest | None = None,
    shows_expired: bool = True,
) -> list[Operator]:
    """Return the operators of `source`, first to last, if the attributes `needed` are read after them.

    `expired` is set if expired rows are emitted, or only searched if not `shows_expired`; `selected` are the attributes
    that the query selects unchanged.
    """
    wanted = dict(needed)
    before_window = source.schema.names()
    for step in source.before:
        before_window = step.output.names() if isinstance(step, model.HandlerCall) else before_window
    after = _steps(source.after, before_window, wanted, context, in_table)
    window: list[Operator] = []
    if source.window is not None:
        compiler = ExpressionCompiler(context, in_table=in_table)
        make = WINDOWS.find(source.window.namespace, source.window.name, source.window.syntax)
        window_context = WindowContext(source.window, context, dict(wanted), expired, compiler, selected, shows_expired)
        made: Operator = make(window_context)
        if context.partitioned and not isinstance(made, KeyedWindow):
            made = PerInstance(lambda: make(window_context), context.instance_ranks, context.common)
        window.append(made)
        wanted |= compiler.columns
    before = _steps(source.before, source.schema.names(), wanted, context, in_table)
    return [*before, *window, *after]


def added_attributes(source: model.SourceInput) -> tuple[tuple[str, AttributeType], ...]:
    """Return the attributes that stream functions before the window add.

    A window with a due timer needs rows with these attributes even when no row has passed the functions.
    """
    known = source.schema.names()
    outputs = [step.output for step in source.before if isinstance(step, model.HandlerCall)]
    return tuple((name, type_) for name, type_ in outputs[-1].attributes if name not in known) if outputs else ()


def _steps(
    steps: Sequence[model.FilterStep | model.HandlerCall],
    known: Sequence[str],
    wanted: dict[str, AttributeType],
    context: OperatorContext,
    in_table: MembershipTest | None,
) -> list[Operator]:
    """Return the operators of `steps`, which start with the attributes `known`.

    `wanted` is replaced by the attributes that they need.
    """
    operators: list[Operator] = []
    for step, added in reversed(list(zip(steps, _added(steps, known), strict=True))):
        compiler = ExpressionCompiler(context, in_table=in_table)
        if isinstance(step, model.FilterStep):
            operators.insert(0, _filter(step, compiler, tuple(wanted), context))
        else:
            make = STREAM_FUNCTIONS.find(step.namespace, step.name, step.syntax)
            operators.insert(0, make(step, compiler))
            for name in added:
                wanted.pop(name, None)
        wanted |= compiler.columns
    return operators


def _added(steps: Sequence[model.FilterStep | model.HandlerCall], known: Sequence[str]) -> list[set[str]]:
    """Return the attributes that each of `steps` adds."""
    added: list[set[str]] = []
    names = set(known)
    for step in steps:
        output = set(step.output.names()) if isinstance(step, model.HandlerCall) else names
        added.append(output - names)
        names = output
    return added


def _filter(
    step: model.FilterStep, compiler: ExpressionCompiler, kept: tuple[str, ...], context: OperatorContext
) -> Operator:
    """Return the filter of `step`, with a copy for each partition instance when it holds aggregates."""
    condition = compiler.compile(step.condition)
    if not (context.partitioned and compiler.aggregates):
        return Filter(condition, compiler, kept)

    def make() -> Operator:
        inner = compiler.afresh()
        return Filter(inner.compile(step.condition), inner, kept)

    return PerInstance(make, context.instance_ranks)
