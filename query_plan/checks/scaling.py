"""Rules about groups whose number of instances follows the load: `@dist(parallel='auto', min='1', max='4')`."""

from __future__ import annotations

from collections.abc import Iterator

from query_plan.annotations import AnnotationValue, is_auto, named, positive, written
from query_plan.findings import Finding, error_rule
from query_plan.planning.survey import Survey
from siddhi.language import ast

BOUNDS = error_rule(
    "auto-parallel-bounds",
    "`min` or `max` is not a whole number from 1 to 1024, `parallel='auto'` has no `max`, `min` is above `max`, or "
    "they are given without `parallel='auto'`",
    "write `parallel='auto', min='1', max='4'`",
)
SHARED = error_rule(
    "auto-parallel-shared-state",
    "a group with `state='shared'` has `parallel='auto'`, but each of its instances processes every event",
    "write a number of instances",
)


def bounds_are_usable(app: ast.App) -> Iterator[Finding]:
    """Check the bounds of groups that follow the load; without a maximum a group could take all slots."""
    for element in app.elements:
        dist = tuple(named(element.annotations, "dist"))
        auto = next((value for value in written(dist, "parallel") if is_auto(value)), None)
        bounds = {key: written(dist, key) for key in ("min", "max")}
        yield from _unusable(bounds)
        if auto is None:
            for key, values in bounds.items():
                for value in values:
                    yield BOUNDS.broken(
                        f"{key} has no effect without parallel='auto'", f"take {key} out, or let it scale", value.span
                    )
        elif not bounds["max"]:
            yield BOUNDS.broken(
                "parallel='auto' needs a largest number of instances", "write parallel='auto', max='4'", auto.span
            )
        else:
            least, most = (next(map(positive, bounds[key]), None) for key in ("min", "max"))
            if least is not None and most is not None and least > most:
                yield BOUNDS.broken(f"min='{least}' is above max='{most}'", "exchange them", bounds["min"][0].span)


def _unusable(bounds: dict[str, tuple[AnnotationValue, ...]]) -> Iterator[Finding]:
    for key, values in bounds.items():
        for value in values:
            if positive(value) is None:
                yield BOUNDS.broken(
                    f"{key}='{value.text[:40]}' is not a whole number from 1 to 1024",
                    f"write {key}='1' or more",
                    value.span,
                )


def scaled_groups_share_the_load(plan: Survey) -> Iterator[Finding]:
    """Report groups in which more instances would not divide the work."""
    for group in plan.groups:
        for member in group.members:
            if member.distribution.scales and member.distribution.shares_state:
                yield SHARED.broken(
                    f"{member.name} shares its state among its instances, each of which processes every event",
                    "write parallel='2', or partition the query and take state='shared' out",
                    member.parallel_span,
                )
