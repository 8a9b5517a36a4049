"""Random apps: the inputs, then one to four parts of all kinds."""

from __future__ import annotations

from collections.abc import Callable

from tools.differential.compositions import behind, sets, table_sides, whole_events
from tools.differential.draw import Draw, optional
from tools.differential.patterns import pattern
from tools.differential.queries import (
    aggregation,
    failing,
    filtered,
    inner_chain,
    join,
    named,
    single,
    table,
    trigger,
)
from tools.differential.schema import INPUT, INPUTS, GeneratedApp, attributes

Part = Callable[[Draw, GeneratedApp], list[str]]


def random_app(draw: Draw, *, peer: bool) -> GeneratedApp:
    """Return an app.

    Args:
        draw: The source of random choices.
        peer: Whether to use only what the released Siddhi has, too.
    """
    app = GeneratedApp(streams=dict.fromkeys(INPUTS, INPUT))
    app.definitions.append("@app:playback" if draw.chance(0.92 if peer else 0.8) else "")
    app.definitions += [f"define stream {name} ({attributes(INPUT)});" for name in INPUTS]
    for number in range(draw.weighted([(1, 5), (2, 3), (3, 1.5), (4, 0.5)])):
        part = draw.weighted(_parts(peer=peer))
        elements = part(draw, app)
        app.elements += elements if number == 0 else [optional(element) for element in elements]
    app.elements = [element.replace("\n", " ") for element in app.elements]
    return app


def _parts(*, peer: bool) -> list[tuple[Part, float]]:
    return [
        (lambda draw, app: [filtered(draw, app)], 1),
        (lambda draw, app: [single(draw, app, unique=not peer)], 5),
        (lambda draw, app: [join(draw, app)], 3),
        (table, 2),
        (named, 1.5),
        (lambda draw, app: [pattern(draw, app, sequence=False)], 4),
        (lambda draw, app: [pattern(draw, app, sequence=True)], 3),
        (partition, 2),
        (aggregation, 0.8),
        (trigger, 0.4),
        (failing, 1),
        (whole_events, 0.8),
        (sets, 0.4),
        (table_sides, 1.5),
        (behind, 2),
    ]


def partition(draw: Draw, app: GeneratedApp) -> list[str]:
    """Return a partition by value or range, with one to three queries inside."""
    app.kinds.add("partition")
    keyed = draw.some(INPUTS, 1, 3)
    if draw.chance(0.7):
        key = draw.weighted(
            [("k", 6), ("i", 1), ("b", 1), ("i % 2", 0.4), ("str:upper(k)", 0.4), ("ifThenElse(i > 2, 'x', k)", 0.4)]
        )
        keys = ", ".join(f"{key} of {stream}" for stream in keyed)
    else:
        ranges = draw.one(["i < 3 as 'low' or i >= 3 as 'high'", "p > 2.0 as 'x' or p > 0.0 as 'y' or i == 1 as 'x'"])
        keys = ", ".join(f"{ranges} of {stream}" for stream in keyed)
    body: list[str] = []
    for number in range(draw.number(1, 2)):
        known = dict(app.streams)
        app.streams = {name: schema for name, schema in known.items() if name in INPUTS}
        kind = draw.weighted([("single", 4), ("join", 1.5), ("pattern", 3), ("sequence", 2), ("inner", 1.5)])
        queries = _inside(draw, app, kind, number)
        app.streams = {**known, **app.streams}
        body.append(" ".join(queries) if number == 0 else optional(" ".join(queries)))
    return [f"partition with ({keys}) begin {' '.join(body)} end;"]


def _inside(draw: Draw, app: GeneratedApp, kind: str, number: int) -> list[str]:
    match kind:
        case "single":
            return [single(draw, app, inside=True)]
        case "join":
            return [join(draw, app, inside=True)]
        case "inner":
            return inner_chain(draw, app, number)
        case _:
            return [pattern(draw, app, sequence=kind == "sequence", inside=True)]
