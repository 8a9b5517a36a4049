"""Rules about the plan's own annotations and `@dist`. They need the syntax tree alone."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from query_plan.annotations import (
    DELIVERIES,
    DIST_KEYS,
    EXPORTING,
    HOSTS,
    IMPORTING,
    MOST_INSTANCES,
    STATISTICS,
    TRANSPORTS,
    AnnotationValue,
    host_of,
    is_auto,
    named,
    of_header,
    positive,
    read_header,
    source_parallels,
    statistics_of,
    written,
)
from query_plan.findings import Finding, Rule, error_rule, warning_rule
from query_plan.plan_names import ALLOWED, USABLE
from siddhi.language import ast

NAME_MISSING = warning_rule(
    "plan-name-missing",
    "the plan has no name; it is named after its file, or by a digest of its text",
    "write `@Plan:name('MyPlan')` in front, in an app `@app:name('MyPlan')`",
)
NAME_EMPTY = error_rule(
    "plan-name-empty", "the plan's name is empty", "write `@Plan:name('MyPlan')`, in an app `@app:name('MyPlan')`"
)
NAME_INVALID = error_rule(
    "plan-name-invalid",
    "the plan's name has characters that are not allowed, or is too long",
    "use letters, digits, blanks and `_-.,&+@=!()`, with none of these but `_` at the beginning, at most 128 "
    "characters",
)
NOT_POSITIVE = error_rule(
    "parallel-not-positive",
    "`parallel`, `receiverParallelism`, `publisherParallelism` or `workers` is not a whole number from 1 to 1024",
    "write such a number, or leave it out",
)
DELIVERY_UNKNOWN = error_rule(
    "delivery-unknown",
    "`@Plan:delivery` has an unknown value, or is given twice",
    "write `@Plan:delivery('exactly-once')`, `'at-least-once'` (the default) or `'at-most-once'`, once",
)
TRANSPORT_UNKNOWN = error_rule(
    "transport-unknown",
    "`@App:transport` has an unknown value, or is given twice",
    "write `@App:transport('kafka')`, or leave it out: groups are connected directly (`'zeromq'`)",
)
HOST_UNKNOWN = error_rule(
    "host-unknown",
    "`@Plan:host` has an unknown value, or is given twice",
    "write `@Plan:host('shared')` or `@Plan:host('own')`, once",
)
HOST_CONTRADICTED = error_rule(
    "host-contradicted",
    "the plan should share a stage host, but requests resources that only its own tasks can have",
    "write `@Plan:host('own')`, or leave out `workers` and `@Plan:resources`",
)
STATISTICS_UNKNOWN = warning_rule(
    "statistics-unknown",
    "`@Plan:statistics` has an unknown level",
    "write `@Plan:statistics('off')`, `'basic'` (the default) or `'detail'`",
)
DIST_REPEATED = error_rule("dist-repeated", "`@dist` gives a value twice", "keep one of them")
DIST_WITHOUT_KEY = error_rule(
    "dist-without-key", "`@dist` has a value without a key", "write `parallel='2'`, not `'2'`"
)
DIST_UNKNOWN_KEY = warning_rule("dist-unknown-key", "`@dist` has an unknown key", "check its spelling")
DIST_INSIDE_PARTITION = error_rule(
    "dist-inside-partition",
    "`@dist` is on a query inside a partition",
    "put it on the partition, which is distributed as a whole",
)
DIST_WITHOUT_EFFECT = warning_rule(
    "dist-without-effect",
    "`@dist` is on a definition or `@sink`, where it has no effect, or in a `@source` together with "
    "`receiverParallelism`",
    "put it on queries and partitions; the number of publishers is set in `@Plan:dist`",
)
STAGE_NAME_EMPTY = error_rule(
    "name-empty", "the name of a query, partition or group is empty", "name it or leave it out"
)
STAGE_NAME_WHITESPACE = error_rule(
    "name-whitespace",
    "the name of a query, partition or group has white space other than single blanks within it",
    "write `_` instead",
)
STAGE_NAME_INVALID = error_rule(
    "name-invalid",
    "the name of a query, partition or group has characters that are not allowed, or is too long",
    "leave `#`, `/` and `\\` out, and stay under 129 characters",
)

_STAGE_NAME = re.compile(r"[^#/\\]{1,128}")
_PLAN_DIST_KEYS = ("receiverParallelism", "publisherParallelism", "workers")


def plan_has_a_name(app: ast.App) -> Iterator[Finding]:
    """Report a plan without a name."""
    if read_header(app).written_name is None:
        yield NAME_MISSING.broken(
            f"the plan has no name; it is named after its file, or {read_header(app).name} without a file",
            f"write {_naming(app, 'MyPlan')} before the first definition",
            _start(app),
        )


def plan_name_is_usable(app: ast.App) -> Iterator[Finding]:
    """Report a name that is invalid in topology names, addresses and directories."""
    name = read_header(app).written_name
    if name is not None:
        if not name.text.strip():
            yield NAME_EMPTY.broken("the plan's name is empty", f"write {_naming(app, 'MyPlan')}", name.span)
        elif not USABLE.fullmatch(name.text.strip()):
            yield NAME_INVALID.broken(
                f"a plan cannot have the name '{name.text}'",
                f"use {ALLOWED}{_as_in(app, name)}",
                name.span,
            )


def _as_in(app: ast.App, name: AnnotationValue) -> str:
    """Return an example annotation that keeps the usable characters of the name, if there are any."""
    rest = re.sub(r"[^A-Za-z0-9_.-]+", "_", name.text.strip()).strip("_.-")
    return f", as in {_naming(app, rest)}" if USABLE.fullmatch(rest) else ""


def parallel_is_a_positive_integer(app: ast.App) -> Iterator[Finding]:
    """Check that `parallel`, `receiverParallelism`, `publisherParallelism` and `workers` are counts."""
    numbers = [(key, value) for key in _PLAN_DIST_KEYS for value in written(of_header(app, "dist"), key)]
    asked = [value for element in app.elements for value in _dist_values(element, "parallel")]
    numbers += [("parallel", value) for value in asked if not is_auto(value)]
    numbers += [("parallel", value) for value in source_parallels(app)]
    for key, value in numbers:
        if positive(value) is None:
            yield NOT_POSITIVE.broken(
                f"{key}='{value.text[:40]}' is not a whole number from 1 to {MOST_INSTANCES}",
                f"write {key}='1' or more (at most {MOST_INSTANCES}), or leave it out for 1",
                value.span,
            )


def delivery_is_known(app: ast.App) -> Iterator[Finding]:
    """Report an unknown delivery guarantee instead of silently using another one."""
    return _names_one(app, "@Plan:delivery", DELIVERY_UNKNOWN, DELIVERIES, "is not a delivery guarantee")


def transport_is_known(app: ast.App) -> Iterator[Finding]:
    """Report an unknown transport instead of silently using another one."""
    wrong = "carries no streams between execution groups"
    return _names_one(app, "@App:transport", TRANSPORT_UNKNOWN, TRANSPORTS, wrong)


def host_is_known(app: ast.App) -> Iterator[Finding]:
    """Report an unknown host, and options that a shared host does not allow.

    In a shared host a plan has one task and no resources of its own.
    """
    yield from _names_one(app, "@Plan:host", HOST_UNKNOWN, HOSTS, "is not a place where a plan can run")
    first = next(of_header(app, "host"), None)
    if first is not None and host_of(AnnotationValue(first.value() or "", first.span)) == "shared":
        header = read_header(app)
        asked = {"workers": (positive(header.workers) or 1) > 1, "cores": header.cores, "memory": header.memory}
        for name in [name for name, found in {**asked, "labels": header.labels}.items() if found]:
            message = f"@Plan:host('shared') with {name}: a plan in a stage host has one task and no resources"
            hint = f"write @Plan:host('own'), or leave out {name}"
            yield HOST_CONTRADICTED.broken(message, hint, first.span)


def _names_one(
    app: ast.App, annotation: str, rule: Rule, names: Collection[str], what_is_wrong: str
) -> Iterator[Finding]:
    """Report a plan annotation whose value is not one of `names`, and repeated annotations of that name."""
    for number, one in enumerate(of_header(app, annotation.rpartition(":")[2])):
        text = one.value() or ""
        if number:
            yield rule.broken(f"{annotation} is given again", "keep one of them", one.span)
        elif text.strip().casefold() not in names:
            yield rule.broken(f"'{text}' {what_is_wrong}", f"write one of {', '.join(names)}", one.span)


def statistics_level_is_known(app: ast.App) -> Iterator[Finding]:
    """Report an unknown statistics level, which would leave the default in place."""
    level = read_header(app).statistics
    if level is not None and statistics_of(level) is None:
        message = f"'{level.text}' is not a level of statistics, the plan has 'basic'"
        yield STATISTICS_UNKNOWN.broken(message, f"write one of {', '.join(STATISTICS)}", level.span)


def dist_keys_are_given_once(app: ast.App) -> Iterator[Finding]:
    """Report contradictions between several `@dist` annotations."""
    for dist, keys in _dist_annotations(app):
        for key in keys:
            for repeated in written(dist, key)[1:]:
                yield DIST_REPEATED.broken(f"@dist gives {key} again", f"keep one {key}", repeated.span)


def dist_keys_are_known(app: ast.App) -> Iterator[Finding]:
    """Report a value of `@dist` without a key or with an unknown key, which would leave the default in place."""
    for dist, keys in _dist_annotations(app):
        for element in (element for annotation in dist for element in annotation.elements):
            if element.key is None:
                message = f"@dist has '{element.value}' without a key"
                yield DIST_WITHOUT_KEY.broken(message, f"write {keys[0]}='…' or {keys[1]}='…'", element.span)
            elif element.key.casefold() not in {key.casefold() for key in keys}:
                message = f"@dist does not know the key '{element.key}'"
                yield DIST_UNKNOWN_KEY.broken(message, f"it takes {', '.join(keys)}", element.span)


def dist_is_on_queries_and_partitions(app: ast.App) -> Iterator[Finding]:
    """Report `@dist` on elements that are not distributed."""
    for element in app.elements:
        if isinstance(element, ast.Partition):
            for annotation in (one for query in element.queries for one in named(query.annotations, "dist")):
                yield DIST_INSIDE_PARTITION.broken(
                    "@dist is on a query inside a partition",
                    "move it before the partition: the partition is distributed as a whole",
                    annotation.span,
                )
    numbered = read_header(app).receiver_parallel is not None
    for definition in app.definitions:
        for annotation in named(definition.annotations, "dist"):
            yield DIST_WITHOUT_EFFECT.broken(
                f"@dist on the definition of {definition.id} has no effect",
                "put it on the queries and partitions that are to be distributed",
                annotation.span,
            )
        for connector in named(definition.annotations, *IMPORTING, *EXPORTING):
            receives = connector.name.casefold() == "source"
            for annotation in named(connector.annotations, "dist") if not (receives and not numbered) else ():
                yield DIST_WITHOUT_EFFECT.broken(
                    f"@dist in @{connector.name} of {definition.id} has no effect"
                    + (": receiverParallelism sets the number of receivers" if receives else ""),
                    "remove one of them"
                    if receives
                    else "write @Plan:dist(publisherParallelism='…') at the head of the plan",
                    annotation.span,
                )


def names_are_usable(app: ast.App) -> Iterator[Finding]:
    """Report an execution group whose name is invalid as a stage name."""
    distributed = any(True for element in app.elements for _ in named(element.annotations, "dist"))
    for element in app.elements:
        names = [*_dist_values(element, "execGroup"), *written(named(element.annotations, "name"), None)]
        if distributed:
            names += written(named(element.annotations, "info"), "name")
        for name in names:
            if not name.text:
                yield STAGE_NAME_EMPTY.broken("the name is empty", "give it a name or leave it out", name.span)
            elif name.text != name.text.strip() or not name.text.isprintable():
                yield STAGE_NAME_WHITESPACE.broken(
                    f"the name '{name.text}' contains white space other than single blanks",
                    f"write '{'_'.join(name.text.split())}'",
                    name.span,
                )
            elif not _STAGE_NAME.fullmatch(name.text):
                yield STAGE_NAME_INVALID.broken(
                    f"a stage cannot have the name '{name.text}'",
                    "use at most 128 characters, and none of '#', '/' and '\\\\'",
                    name.span,
                )


def _dist_values(element: ast.ExecutionElement, key: str) -> tuple[AnnotationValue, ...]:
    return written(named(element.annotations, "dist"), key)


def _dist_annotations(app: ast.App) -> Iterator[tuple[tuple[ast.Annotation, ...], tuple[str, ...]]]:
    yield tuple(of_header(app, "dist")), _PLAN_DIST_KEYS
    for element in app.elements:
        yield tuple(named(element.annotations, "dist")), DIST_KEYS


def _naming(app: ast.App, name: str) -> str:
    """Return the annotation that sets `name` in the dialect of `app`.

    The annotation of the other dialect would change the language of the plan.
    """
    return f"@{'Plan' if read_header(app).dialect_3x else 'app'}:name('{name}')"


def _start(app: ast.App) -> ast.Span:
    return ast.Span(
        app.span.line, app.span.column, app.span.line, app.span.column + 1, app.span.start, app.span.start + 1
    )
