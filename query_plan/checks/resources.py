"""Rules about the resources of a plan's tasks (`@Plan:resources`). They need the syntax tree alone."""

from __future__ import annotations

from collections.abc import Iterator

from query_plan.annotations import (
    LEAST_MEMORY_BYTES,
    MOST_CORES,
    AnnotationValue,
    labels_of,
    memory_of,
    of_header,
    read_cores,
    written,
)
from query_plan.findings import Finding, error_rule
from siddhi.language import ast

RESOURCES_UNUSABLE = error_rule(
    "resources-unusable",
    "`@Plan:resources` gives `cores`, `memory` or `labels` a value that cannot be used, or something else",
    "write `@Plan:resources(cores='2', memory='1g', labels='ssd')`, each at most once; all are optional",
)

_READERS = {"cores": read_cores, "memory": memory_of, "labels": labels_of}
_HINTS = {
    "cores": f"write how many cores each task takes, such as cores='2' (at most {MOST_CORES})",
    "memory": f"write the memory limit of each task, such as memory='512m' or memory='2g', at least "
    f"{LEAST_MEMORY_BYTES // 2**20}m: a task needs this much before its first event",
    "labels": "write labels of hosts with commas between them, such as labels='ssd, zone=a'",
}


def resources_are_usable(app: ast.App) -> Iterator[Finding]:
    """Report invalid resource values, which would leave the plan without its limit."""
    annotations = tuple(of_header(app, "resources"))
    for element in (element for annotation in annotations for element in annotation.elements):
        key = (element.key or "").casefold()
        value = AnnotationValue(element.value, element.span)
        if key not in _READERS:
            named = f"the key '{element.key}'" if element.key else "a value without a key"
            yield RESOURCES_UNUSABLE.broken(
                f"@Plan:resources has an unknown option: {named}", f"it takes {', '.join(_READERS)}", element.span
            )
        elif value != written(annotations, key)[0]:
            yield RESOURCES_UNUSABLE.broken(f"@Plan:resources gives {key} again", f"keep one {key}", element.span)
        elif _READERS[key](value) is None:
            yield RESOURCES_UNUSABLE.broken(f"{key}='{element.value}' cannot be used", _HINTS[key], element.span)
