"""The attributes that an expression can refer to, and the resolution of their names."""

from __future__ import annotations

from dataclasses import dataclass, replace

from siddhi.analysis.model import AttributeValue, EventReference, OutputValue, Schema, TableValue, TypedExpression
from siddhi.analysis.problems import Problems
from siddhi.errors import did_you_mean
from siddhi.language import ast
from siddhi.language.ast import AttributeType, SourceReference


@dataclass(frozen=True, slots=True)
class Slot:
    """An input of a query.

    `hidden` is set for an input that comes later in the text than the expression, `counted` for one that may contain
    several events, `named` for one with an alias. `index` is the event of a reference without an index (`first`, `last`
    of a window). A `lone` slot, a side of a join, has exactly one event, which is both `[0]` and `[last]`.
    """

    number: int
    reference: str
    schema: Schema
    counted: bool = False
    hidden: bool = False
    named: bool = False
    index: ast.EventIndex | None = None
    lone: bool = False


@dataclass(frozen=True, slots=True)
class Scope:
    """The place of an expression.

    Names without a qualifier refer to attributes of `output` first (if set), then of the `own` slot, or without one of
    the only slot that has them. `tables`, innermost first, resolve `T.attribute`. A reference without an index to a
    counted slot means the last event, or the first when `firsts` is set (from `select` on), or all its events when
    `lists` is set too and the reference uses an alias. `aggregates` allows calls of aggregates, `tables_searched`
    allows `in`, and `place` is the name of the place in messages. With `loose` an unknown qualifier is ignored, as in
    Siddhi 3.x with a single input. `nearest` is the slot that an unqualified name refers to if several slots have the
    attribute. `aliased` are the slots under the names that `in` and `is null` use, where these differ. `events` allows
    calls to take a slot's event, as with several slots or in a pattern. `paired` is set when the events of two sides
    are compared: then each side has exactly one event.
    """

    slots: tuple[Slot, ...] = ()
    own: int | None = None
    output: Schema | None = None
    tables: tuple[Schema, ...] = ()
    firsts: bool = False
    lists: bool = False
    aggregates: bool = True
    tables_searched: bool = True
    place: str = "expression"
    loose: bool = False
    nearest: int | None = None
    aliased: tuple[Slot, ...] = ()
    events: bool = True
    paired: bool = False

    def by_alias(self) -> Scope:
        """Return the scope with the slots under the names for `in` and `is null`."""
        return replace(self, slots=self.aliased, aliased=()) if self.aliased else self

    def resolve(self, attribute: ast.Attribute, problems: Problems) -> TypedExpression | None:
        """Return the meaning of the attribute. If it cannot be resolved, record the problem and return None."""
        if attribute.source is None:
            return self._resolve_plain(attribute, problems)
        return self._resolve_qualified(attribute, attribute.source, problems)

    def slot_of(self, reference: SourceReference) -> Slot | None:
        """Return the first slot that the reference names."""
        name = f"{'#' if reference.inner else '!' if reference.fault else ''}{reference.name}"
        return next((slot for slot in self.slots if slot.reference == name), None)

    def event(self, reference: SourceReference, problems: Problems) -> EventReference | None:
        """Return the event that the reference names, or None when no slot is called so."""
        slot = self.slot_of(reference)
        if slot is None or self._refuses_hidden(slot, reference.span, problems):
            return None
        if self._refuses_index(slot, reference, problems):
            return None
        return EventReference(slot.number, self._index_of(slot, reference))

    def _resolve_plain(self, attribute: ast.Attribute, problems: Problems) -> TypedExpression | None:
        name = attribute.name
        if self.output is not None and name in self.output:
            return OutputValue(name, self.output.type_of(name))
        own = tuple(slot for slot in self.slots if slot.number == self.own)[:1]
        having = [slot for slot in own or self.slots if name in slot.schema]
        if len(having) > 1:
            having = [slot for slot in having if slot.number == self.nearest] or having
        if len(having) > 1:
            places = " and ".join(f"'{slot.reference}'" for slot in having)
            hint = f"write '{having[0].reference}.{name}'"
            problems.add("ambiguous-attribute", f"attribute '{name}' is in {places}", attribute.span, hint)
            return None
        if having:
            if self._refuses_hidden(having[0], attribute.span, problems):
                return None
            return self._value(having[0], attribute, None)
        self._unknown(attribute, own or self.slots, problems)
        return None

    def _unknown(self, attribute: ast.Attribute, slots: tuple[Slot, ...], problems: Problems) -> None:
        """Report that none of `slots` has the attribute."""
        name = attribute.name
        schemas = [schema for schema in (self.output, *(slot.schema for slot in slots)) if schema is not None]
        known = [known_name for schema in schemas for known_name in schema.names()]
        hint = did_you_mean(name, known)
        table = next((table for table in self.tables if name in table), None)
        place = next((slot for slot in self.slots if name in slot.schema and not slot.hidden), None)
        if table is not None:
            hint = f"write '{table.id}.{name}' for the table's attribute"
        elif name.casefold() == "null":
            hint = "test for null with `is null`"
        elif place is not None:
            hint = f"write '{place.reference}.{name}'"
        elif hint is None and self.output is not None and self.place in {"having", "order by"}:
            hint = f"{self.place} can only use selected attributes: add '{name}' to `select`"
        where = "the output" if self.output is not None else " or ".join(f"'{slot.reference}'" for slot in slots)
        message = (
            f"there is no attribute '{name}' in {where}" if where else f"an attribute is not allowed here: '{name}'"
        )
        problems.add("unknown-attribute", message, attribute.span, hint)

    def _resolve_qualified(
        self, attribute: ast.Attribute, source: SourceReference, problems: Problems
    ) -> TypedExpression | None:
        slot = self.slot_of(source)
        if slot is None:
            table = next((table for table in self.tables if table.id == source.name), None)
            if table is not None and not source.inner and not source.fault:
                return self._table_value(attribute, table, problems)
            # With several inputs, only these have names. Siddhi parses the text after `#` as a function if it is not an
            # inner stream, and never reads it.
            output = not self.slots and self.output is not None and source.name == self.output.id
            function = source.inner and source.nested is None
            if output or self.loose or function:
                return self._resolve_plain(ast.Attribute(attribute.name, span=attribute.span), problems)
            known = [slot.reference for slot in self.slots] + [table.id for table in self.tables]
            problems.add(
                "unknown-reference",
                f"there is nothing named '{source.name}' here",
                source.span,
                did_you_mean(source.name, known) or (f"known here: {', '.join(known)}" if known else None),
            )
            return None
        if self._refuses_hidden(slot, attribute.span, problems):
            return None
        if attribute.name not in slot.schema:
            problems.add(
                "unknown-attribute",
                f"there is no attribute '{attribute.name}' in '{slot.reference}'",
                attribute.span,
                did_you_mean(attribute.name, slot.schema.names()),
            )
            return None
        if self._refuses_index(slot, source, problems):
            return None
        return self._value(slot, attribute, source)

    def _table_value(self, attribute: ast.Attribute, table: Schema, problems: Problems) -> TableValue | None:
        if attribute.name not in table:
            hint = did_you_mean(attribute.name, table.names())
            message = f"there is no attribute '{attribute.name}' in '{table.id}'"
            problems.add("unknown-attribute", message, attribute.span, hint)
            return None
        return TableValue(table.id, attribute.name, table.type_of(attribute.name))

    def _refuses_hidden(self, slot: Slot, span: ast.Span, problems: Problems) -> bool:
        if slot.hidden:
            message = f"'{slot.reference}' is not known here yet"
            hint = "put the condition on the later element; of `a and b` only the left side may refer to the other"
            problems.add("forward-reference", message, span, hint)
        return slot.hidden

    def _value(self, slot: Slot, attribute: ast.Attribute, source: SourceReference | None) -> AttributeValue:
        if slot.counted and self.lists and source is not None and slot.named and source.index is None:
            return AttributeValue(slot.number, attribute.name, AttributeType.OBJECT, all_events=True)
        type_ = slot.schema.type_of(attribute.name)
        return AttributeValue(slot.number, attribute.name, type_, self._index_of(slot, source))

    def _refuses_index(self, slot: Slot, reference: SourceReference, problems: Problems) -> bool:
        """Report an index in the condition of a join that refers to an event which the side never has."""
        refused = self.paired and reference.index is not None and reference.index.offset > 0
        if refused:
            problems.add("no-such-event", f"'{slot.reference}' is one event: use only [0] or [last]", reference.span)
        return refused

    def _index_of(self, slot: Slot, reference: SourceReference | None) -> ast.EventIndex | None:
        """Return the index of the event of `slot` that the reference means."""
        written = None if reference is None else reference.index
        if slot.lone and written is not None and not written.offset:
            return None
        return written or self._index(slot)

    def _index(self, slot: Slot) -> ast.EventIndex | None:
        """Return the index of the event of `slot` that a reference without an index means."""
        return ast.EventIndex(0) if slot.counted and self.firsts else slot.index
