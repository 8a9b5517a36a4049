"""The rule about output rates of 0 events or 0 milliseconds."""

from __future__ import annotations

from collections.abc import Iterator

from query_plan.findings import Finding, warning_rule
from siddhi.language import ast

RATE_OF_NOTHING = warning_rule(
    "output-rate-of-nothing",
    "a query emits events every 0 events, which is never, or every 0 milliseconds, which is immediately",
    "correct the rate, or omit it",
)


def output_rates_are_of_something(app: ast.App) -> Iterator[Finding]:
    """Warn about output rates of 0 events or 0 milliseconds. The analysis refuses snapshots every 0 milliseconds."""
    for element in app.elements:
        for query in element.queries if isinstance(element, ast.Partition) else (element,):
            rate = query.rate
            if isinstance(rate, ast.EventRate) and rate.events == 0:
                effect = "emits only the first event" if rate.kind == "first" else "emits nothing"
                yield RATE_OF_NOTHING.broken(f"'every 0 events' {effect}", _HINT, rate.span)
            elif isinstance(rate, ast.TimeRate) and rate.time.milliseconds == 0:
                yield RATE_OF_NOTHING.broken("a rate of 0 milliseconds delays nothing", _HINT, rate.span)


_HINT = "write a number above 0, or leave 'output … every …' out"
