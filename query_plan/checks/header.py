"""Rules about the plan's own annotations and the numbers in `@dist`. They need the syntax tree alone."""

from __future__ import annotations

import re
from collections.abc import Iterator

from query_plan.annotations import Written, named, of_header, positive, read_header, written
from query_plan.findings import Finding, error, warning
from siddhi.language import ast

_PLAN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}", re.ASCII)
_DIST_KEYS = ("execGroup", "parallel")
_PLAN_DIST_KEYS = ("receiverParallelism", "publisherParallelism", "workers")


def plan_has_a_name(app: ast.App) -> Iterator[Finding]:
    """A plan is known by its name."""
    if read_header(app).written_name is None:
        yield error(
            "plan-name-missing",
            "the plan has no name",
            "write @Plan:name('MyPlan') in front of the first definition",
            _start(app),
        )


def plan_name_is_usable(app: ast.App) -> Iterator[Finding]:
    """The name becomes part of the topology's name, of addresses and of directories."""
    name = read_header(app).written_name
    if name is not None:
        if not name.text.strip():
            yield error("plan-name-empty", "the plan's name is empty", "write @Plan:name('MyPlan')", name.span)
        elif any(character.isspace() for character in name.text.strip()):
            yield error(
                "plan-name-whitespace",
                f"the plan's name '{name.text}' contains white space",
                f"write @Plan:name('{'_'.join(name.text.split())}')",
                name.span,
            )
        elif not _PLAN_NAME.fullmatch(name.text.strip()):
            yield error(
                "plan-name-invalid",
                f"a topology cannot bear the name '{name.text}'",
                "use letters, digits, '_', '-' and '.', no '.' or '-' in front, at most 128 characters",
                name.span,
            )


def parallel_is_a_positive_integer(app: ast.App) -> Iterator[Finding]:
    """`parallel`, `receiverParallelism`, `publisherParallelism` and `workers` count things."""
    numbers = [(key, value) for key in _PLAN_DIST_KEYS for value in written(of_header(app, "dist"), key)]
    numbers += [("parallel", value) for element in app.elements for value in _dist_values(element, "parallel")]
    for key, value in numbers:
        if positive(value) is None:
            yield error(
                "parallel-not-positive",
                f"{key}='{value.text}' is no positive whole number",
                f"write {key}='1' or more (at most 999999), or leave it out for 1",
                value.span,
            )


def dist_says_things_once(app: ast.App) -> Iterator[Finding]:
    """Several `@dist` may stand together, but none may contradict another."""
    for dist, keys in _dist_annotations(app):
        for key in keys:
            for repeated in written(dist, key)[1:]:
                yield error("dist-repeated", f"@dist gives {key} again", f"keep one {key}", repeated.span)


def dist_keys_are_known(app: ast.App) -> Iterator[Finding]:
    """A value without its key, or with a misspelt one, would silently leave the default in place."""
    for dist, keys in _dist_annotations(app):
        for element in (element for annotation in dist for element in annotation.elements):
            if element.key is None:
                message = f"@dist has '{element.value}' without a key"
                yield error("dist-without-key", message, f"write {keys[0]}='…' or {keys[1]}='…'", element.span)
            elif element.key.casefold() not in {key.casefold() for key in keys}:
                message = f"@dist does not know the key '{element.key}'"
                yield warning("dist-unknown-key", message, f"it takes {', '.join(keys)}", element.span)


def dist_stands_on_elements(app: ast.App) -> Iterator[Finding]:
    """Only queries and partitions are distributed."""
    for element in app.elements:
        if isinstance(element, ast.Partition):
            for annotation in (one for query in element.queries for one in named(query.annotations, "dist")):
                yield error(
                    "dist-inside-partition",
                    "@dist stands on a query inside a partition",
                    "move it in front of the partition: the partition is distributed as a whole",
                    annotation.span,
                )
    for definition in app.definitions:
        for annotation in named(definition.annotations, "dist"):
            yield warning(
                "dist-without-effect",
                f"@dist on the definition of {definition.id} has no effect",
                "put it on the queries and partitions that are to be distributed",
                annotation.span,
            )


def names_are_usable(app: ast.App) -> Iterator[Finding]:
    """The name of an execution group becomes the name of a stage."""
    for element in app.elements:
        names = [*_dist_values(element, "execGroup"), *written(named(element.annotations, "name"), None)]
        if any(True for _ in named(element.annotations, "dist")):
            names += written(named(element.annotations, "info"), "name")
        for name in names:
            if not name.text:
                yield error("name-empty", "the name is empty", "give it a name or leave it out", name.span)
            elif any(character.isspace() or not character.isprintable() for character in name.text):
                yield error(
                    "name-whitespace",
                    f"the name '{name.text}' contains white space",
                    f"write '{'_'.join(name.text.split())}'",
                    name.span,
                )


def _dist_values(element: ast.ExecutionElement, key: str) -> tuple[Written, ...]:
    return written(named(element.annotations, "dist"), key)


def _dist_annotations(app: ast.App) -> Iterator[tuple[tuple[ast.Annotation, ...], tuple[str, ...]]]:
    yield tuple(of_header(app, "dist")), _PLAN_DIST_KEYS
    for element in app.elements:
        yield tuple(named(element.annotations, "dist")), _DIST_KEYS


def _start(app: ast.App) -> ast.Span:
    return ast.Span(
        app.span.line, app.span.column, app.span.line, app.span.column + 1, app.span.start, app.span.start + 1
    )
