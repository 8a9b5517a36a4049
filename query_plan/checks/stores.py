"""Rules about the stores of tables and aggregations, and their options."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from query_plan.annotations import named
from query_plan.databases.stores import STORE_OPTIONS, UNHEEDED, Store, StoreError, store_annotation, store_of
from query_plan.findings import Finding, error_rule, warning_rule
from query_plan.planning.survey import Survey
from siddhi.analysis import model
from siddhi.language import ast

STORE_UNUSABLE = error_rule(
    "store-unusable",
    "`@store(type='rdbms')` names no database, or has an invalid option",
    "see [tables in a database](connectors/database.md#tables-in-a-database)",
)
STORE_UNUSED = warning_rule(
    "store-kept-in-memory",
    "a table or aggregation has a store of an unknown type; its group keeps it in memory instead",
    "use the type `rdbms`, or take the annotation out and send rows from elsewhere as a stream",
)
UNKNOWN_STORE_OPTION = warning_rule(
    "store-option-unknown",
    "an option of a store is unknown, or names an attribute that the table does not have; it is ignored",
    "take it out, or write a known one",
)

STORE_OPTION_IDLE = warning_rule(
    "store-option-without-effect", "an option of Siddhi's stores has no effect here", "take it out"
)

_ADVICE = {"table.check.query": "create='false' does not create a missing table"}
"""Options of Siddhi's stores without effect, and the alternative to each."""
_LEGACY = ("eventtable", "datasource.name", "driver.name")
"""Additional options of `@From` in an execution plan."""


def stores_are_usable(plan: Survey) -> Iterator[Finding]:
    """Report tables with a store of type `rdbms` that do not name their database and table correctly."""
    for name, error in _errors(plan):
        if not error.kept_in_memory:
            yield STORE_UNUSABLE.broken(f"the store of the table {name}: {error}", error.hint, error.span)


def tables_are_kept_in_memory(plan: Survey) -> Iterator[Finding]:
    """Warn about stores of unknown types; their tables are kept in memory and do not use the store."""
    for name, error in _errors(plan):
        if error.kept_in_memory:
            message = f"the table {name} is kept in memory, not in its store: {error}"
            yield STORE_UNUSED.broken(message, error.hint, error.span)
    for name, aggregation in plan.app.aggregations.items():
        for annotation in named(aggregation.syntax.annotations, "store"):
            yield STORE_UNUSED.broken(
                f"@{annotation.name} of the aggregation {name} has no effect: its buckets are kept in memory",
                "take it out; existing data in the store is not read, and nothing is written to it",
                annotation.span,
            )


def store_options_are_known(plan: Survey) -> Iterator[Finding]:
    """Warn about options that a store of type `rdbms` does not know, and those of Siddhi without effect."""
    known = (*STORE_OPTIONS, *UNHEEDED, "type", "ref")
    for name, table in plan.app.tables.items():
        for annotation in named(table.syntax.annotations, "store", "from"):
            type_ = annotation.value("type") or annotation.value("eventtable") or ""
            type_ = type_ or ("rdbms" if annotation.value("ref") else "")
            if type_.casefold() != "rdbms":
                continue
            legacy = _LEGACY if annotation.name.casefold() == "from" else ()
            for element in annotation.elements:
                if element.key is not None and element.key.casefold() not in (*known, *legacy):
                    yield _unknown(name, element)
                elif element.key is not None and element.key.casefold() in UNHEEDED:
                    message = f"{element.key} of the store of {name} has no effect: {UNHEEDED[element.key.casefold()]}"
                    yield STORE_OPTION_IDLE.broken(message, "take it out", element.span)
            for nested in annotation.annotations:
                reason = (
                    "all rows of the table are in memory" if nested.name.casefold() == "cache" else "no store knows it"
                )
                message = f"@{nested.name} of the store of {name} has no effect: {reason}"
                yield STORE_OPTION_IDLE.broken(message, "take it out", nested.span)
    yield from _lengths_of_nothing(plan)


def _lengths_of_nothing(plan: Survey) -> Iterator[Finding]:
    """Warn about lengths of attributes that the table does not have, which Siddhi accepts."""
    for name, table in plan.app.tables.items():
        store, annotation = _store(table), store_annotation(table.syntax.annotations)
        if store is None or annotation is None:
            continue
        for attribute in sorted(store.field_lengths.keys() - dict(table.schema.attributes)):
            message = f"field.length: the table {name} has no attribute '{attribute}'"
            known = ", ".join(one for one, _ in table.schema.attributes)
            yield UNKNOWN_STORE_OPTION.broken(message, f"its attributes: {known}", annotation.span)


def _store(table: model.AnalysedTable) -> Store | None:
    try:
        return store_of(table)
    except StoreError:
        return None


def _unknown(table: str, element: ast.AnnotationElement) -> Finding:
    near = difflib.get_close_matches(element.key or "", STORE_OPTIONS, n=1)
    hint = f"did you mean '{near[0]}'?" if near else f"known options: {', '.join(STORE_OPTIONS)}"
    message = f"no store knows the option '{element.key}'; it is ignored for table {table}"
    return UNKNOWN_STORE_OPTION.broken(message, _ADVICE.get(element.key or "", hint), element.span)


def _errors(plan: Survey) -> Iterator[tuple[str, StoreError]]:
    for name, table in plan.app.tables.items():
        try:
            store_of(table)
        except StoreError as error:
            yield name, error
