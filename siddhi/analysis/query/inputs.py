"""The input of a query: one source with its handlers, or a join of two."""

from __future__ import annotations

from dataclasses import replace

from siddhi.analysis.context import Context
from siddhi.analysis.definition.windows import analyse_window
from siddhi.analysis.expression.expressions import ExpressionAnalyser
from siddhi.analysis.expression.scope import Scope, Slot
from siddhi.analysis.expression.walk import walk
from siddhi.analysis.model import (
    AttributeValue,
    EventReference,
    FilterStep,
    HandlerCall,
    IsEmptySlot,
    Join,
    Schema,
    SourceInput,
    SourceKind,
    TypedExpression,
)
from siddhi.analysis.query.periods import analyse_period
from siddhi.language import ast
from siddhi.registry import Attributes, CallError, Kind

_STREAMING = frozenset(
    {SourceKind.STREAM, SourceKind.INNER_STREAM, SourceKind.FAULT_STREAM, SourceKind.WINDOW, SourceKind.TRIGGER}
)


def analyse_single(context: Context, source: ast.SingleInput) -> SourceInput | None:
    """Return the single source of a query: a stream, a trigger or a named window."""
    typed = analyse_chain(context, source, 0)
    if typed is not None and typed.kind not in _STREAMING:
        context.problems.add(
            "not-a-stream",
            f"{typed.kind.value} '{typed.source}' cannot be a query's only input",
            source.span,
            "join a stream with it, or use an on-demand query",
        )
        return None
    return typed


def analyse_chain(
    context: Context, source: ast.SingleInput, number: int, others: tuple[Slot, ...] = (), *, in_pattern: bool = False
) -> SourceInput | None:
    """Return one source with its handlers, as slot `number`; `others` are further slots that its conditions can read.

    Return None if the attributes after the last handler are unknown.
    """
    found = context.symbols.find_source(source, context.problems)
    if found is None:
        return None
    kind, name, schema = found
    written = f"{'#' if source.inner else '!' if source.fault else ''}{source.source}"
    reference = source.alias or written
    handled = reference if in_pattern else written
    builder = _ChainBuilder(context, kind, Slot(number, reference, schema), handled, others, in_pattern=in_pattern)
    for handler in source.handlers:
        builder.add(handler)
    if builder.broken:
        return None
    return SourceInput(
        name,
        kind,
        reference,
        schema,
        builder.slot.schema,
        tuple(builder.before),
        builder.window,
        tuple(builder.after),
        syntax=source,
    )


class _ChainBuilder:
    """Builds a chain handler by handler.

    `handled` is the name by which the source's handlers refer to it. As in Siddhi, in a join this is the name of the
    source even if there is an alias.
    """

    def __init__(
        self,
        context: Context,
        kind: SourceKind,
        slot: Slot,
        handled: str,
        others: tuple[Slot, ...],
        *,
        in_pattern: bool,
    ) -> None:
        self.slot = slot
        self._handled = handled
        self.before: list[FilterStep | HandlerCall] = []
        self.after: list[FilterStep | HandlerCall] = []
        self.window: HandlerCall | None = None
        self.broken = False
        self._window_came = False
        self._context = context
        self._kind = kind
        self._others = others
        self._in_pattern = in_pattern

    def add(self, handler: ast.Handler) -> None:
        if isinstance(handler, ast.WindowHandler):
            self._add_window(handler)
            return
        steps = self.after if self._window_came else self.before
        if isinstance(handler, ast.FilterHandler):
            condition = self._expressions("a filter").analyse_condition(handler.condition, "a filter")
            if condition is not None:
                steps.append(FilterStep(condition))
        else:
            step = self._stream_function(handler)
            if step is None:
                self.broken = True
            else:
                steps.append(step)

    def _expressions(self, place: str) -> ExpressionAnalyser:
        loose = self._context.dialect_3x and not self._in_pattern
        scope = Scope(
            (*self._others, self._own_slot()),
            own=self.slot.number,
            place=place,
            tables_searched=not self._in_pattern,
            loose=loose,
            aliased=(*self._others, self.slot),
            events=self._in_pattern,
        )
        return self._context.expressions(scope)

    def _own_slot(self) -> Slot:
        return replace(self.slot, reference=self._handled)

    def _add_window(self, window: ast.WindowHandler) -> None:
        problems = self._context.problems
        if self._window_came:
            problems.add("second-window", "an input has at most one window", window.span)
            return
        self._window_came = True
        if self._kind is SourceKind.WINDOW:
            problems.add("window-on-window", "a named window cannot have another window", window.span)
            return
        call = analyse_window(self._context, window.call, self.slot, self._own_slot())
        if self._kind is not SourceKind.TABLE:  # Siddhi accepts a window on a table and ignores it
            self.window = call

    def _stream_function(self, handler: ast.StreamFunction) -> HandlerCall | None:
        call, context = handler.call, self._context
        arguments = self._expressions("a stream function").analyse_arguments(call)
        declaration = context.calls.find(Kind.STREAM_FUNCTION, call)
        if declaration is None or arguments is None or not context.calls.fits(declaration, call, arguments):
            return None
        if self._in_pattern and not declaration.in_patterns:
            hint = "put it into a separate query and read its output"
            context.problems.add("not-in-patterns", f"'{call.name}' is not allowed in a pattern", call.span, hint)
            return None
        if self._in_pattern and any(not self._own(part) for argument in arguments for part in walk(argument)):
            hint = "compare with other elements in a filter"
            message = f"the arguments of '{call.name}' can only look at the event of their own element"
            context.problems.add("not-in-patterns", message, call.span, hint)
            return None
        appended: Attributes = ()
        try:
            if declaration.appends is not None:
                appended = declaration.appends(context.calls.facts(arguments))
        except CallError as error:
            context.problems.add("wrong-arguments", f"'{call.name}': {error}", call.span)
            return None
        for name, _ in appended:
            if name in self.slot.schema:
                message = f"'{call.name}' adds attribute '{name}', which the stream has already"
                context.problems.add("duplicate-attribute", message, call.span)
                return None
        output = Schema(self.slot.schema.id, (*self.slot.schema.attributes, *appended))
        self.slot = replace(self.slot, schema=output)
        return HandlerCall(declaration.namespace, declaration.name, arguments, output, syntax=call)

    def _own(self, part: TypedExpression) -> bool:
        """Return whether `part` refers only to the element's own event."""
        if not isinstance(part, AttributeValue | EventReference | IsEmptySlot):
            return True
        return part.slot == self.slot.number and part.index is None


def analyse_join(context: Context, join: ast.JoinInput) -> Join | None:
    """Return two sources joined; the left one is slot 0, the right one slot 1."""
    left = _without_needless_filters(analyse_chain(context, join.left, 0))
    right = _without_needless_filters(analyse_chain(context, join.right, 1))
    if left is None or right is None:
        return None
    streaming = (left.kind in _STREAMING, right.kind in _STREAMING)
    if not any(streaming):
        message = f"{left.kind.value} '{left.source}' and {right.kind.value} '{right.source}' cannot be joined"
        context.problems.add("join-without-stream", message, join.span, "one side of a join must be a stream or window")
        return None
    triggers = (
        streaming[0] and join.unidirectional != "right",
        streaming[1] and join.unidirectional != "left",
    )
    nearest = _side_of_events(left, right) if context.dialect_3x else None
    scope = Scope(join_slots(left, right), place="the condition of a join", nearest=nearest, paired=True)
    on = context.expressions(scope).analyse(join.on) if join.on is not None else None
    read = next((side.source for side in (left, right) if side.kind is SourceKind.AGGREGATION), None)
    period = analyse_period(context, join, replace(scope, aggregates=False), read)
    return Join(left, right, join.kind, on, triggers, period.within, period.per)


def _without_needless_filters(side: SourceInput | None) -> SourceInput | None:
    """Return the side of a join without the filters that Siddhi ignores.

    Siddhi ignores filters on inputs that store rows (tables, named windows, aggregations): all their rows take part in
    the join.
    """
    if side is None or side.kind in _STREAMING - {SourceKind.WINDOW}:
        return side
    return replace(side, before=tuple(step for step in side.before if not isinstance(step, FilterStep)))


def _side_of_events(left: SourceInput, right: SourceInput) -> int | None:
    """Return the slot of the side that is joined with a table; None if neither side is a table."""
    if left.kind is SourceKind.TABLE:
        return 1
    return 0 if right.kind is SourceKind.TABLE else None


def join_slots(left: SourceInput, right: SourceInput) -> tuple[Slot, Slot]:
    """Return the slots of a join's sides."""
    return Slot(0, left.reference, left.output, lone=True), Slot(1, right.reference, right.output, lone=True)
