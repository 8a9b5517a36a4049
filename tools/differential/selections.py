"""Random `select`, `group by`, `having`, `order by`, `limit` and output rates."""

from __future__ import annotations

from dataclasses import dataclass

from tools.differential.draw import Draw, listed, optional
from tools.differential.expressions import (
    NUMBERS,
    Ref,
    Refs,
    condition,
    constant_comparison,
    expression,
    of_type,
)
from tools.differential.schema import Schema

_SAME, _WIDE = "same", "wide"
_AGGREGATORS = (
    ("sum", NUMBERS, _WIDE),
    ("avg", NUMBERS, "double"),
    ("count", (), "long"),
    ("min", NUMBERS, _SAME),
    ("max", NUMBERS, _SAME),
    ("distinctCount", ("string", "int", "long", "double"), "long"),
    ("stdDev", NUMBERS, "double"),
    ("minForever", NUMBERS, _SAME),
    ("maxForever", NUMBERS, _SAME),
    ("and", ("bool",), "bool"),
    ("or", ("bool",), "bool"),
)


@dataclass(frozen=True, slots=True)
class GeneratedSelection:
    """What follows the input of a query, and the attributes that it gives."""

    text: str
    schema: Schema


def aggregate(draw: Draw, refs: Refs) -> tuple[str, str]:
    """Return a call of an aggregator, and its type."""
    name, types, gives = draw.one(_AGGREGATORS)
    taken = of_type(refs, *types)
    if not taken:
        return "count()", "long"
    ref = draw.one(taken)
    wide = "long" if ref.type in ("int", "long") else "double"
    return f"{name}({ref.text})", {_SAME: ref.type, _WIDE: wide}.get(gives, gives)


def selection(
    draw: Draw, refs: Refs, *, aggregates: float = 0.5, groups: bool = True, rates: float = 0.15, plain: float = 0.0
) -> GeneratedSelection:
    """Return a selection over `refs`.

    Args:
        draw: The source of random choices.
        refs: The attributes that can be selected.
        aggregates: The share of selections with aggregates.
        groups: Whether there may be a `group by`.
        rates: The share of selections with an output rate.
        plain: The share of selections with attributes only, without any other clause.
    """
    simple = draw.chance(plain)
    items: list[str] = []
    schema: list[tuple[str, str]] = []
    for place, ref in enumerate(draw.some([one for one in refs if one.type != "object"], 1, 3)):
        items.append(f"{ref.text} as o{place}")
        schema.append((f"o{place}", ref.type))
    if not simple and draw.chance(0.3):
        type_ = draw.one(["int", "long", "double", "float", "bool", "string"])
        _append(items, schema, expression(draw, refs, type_), type_)
    with_aggregates = not simple and draw.chance(aggregates)
    if with_aggregates:
        for _ in range(draw.number(1, 3)):
            _append(items, schema, *aggregate(draw, refs))
    text = f"select {listed(items)}"
    if groups and not simple and draw.chance(0.55 if with_aggregates else 0.06):
        keys = of_type(refs, "string", "bool", "int")
        if keys:
            text += optional(f" group by {listed(key.text for key in draw.some(keys, 1, 2))}")
    if not simple:
        text += _limits(draw, refs, schema)
        if draw.chance(rates):
            text += optional(f" {rate(draw)}")
    return GeneratedSelection(text, tuple(schema))


def _append(items: list[str], schema: list[tuple[str, str]], text: str, type_: str) -> None:
    name = f"o{len(schema)}"
    items.append(f"{text} as {name}")
    schema.append((name, type_))


def _limits(draw: Draw, refs: Refs, schema: list[tuple[str, str]]) -> str:
    """Return `having`, `order by`, `limit` and `offset`, most of the time nothing."""
    text = ""
    outputs = [Ref(name, type_) for name, type_ in schema if type_ != "object"]
    if draw.chance(0.15):
        if draw.chance(0.25):
            call, type_ = aggregate(draw, refs)
            text += optional(f" having {constant_comparison(draw, Ref(call, type_))}")
        else:
            text += optional(f" having {condition(draw, outputs).replace('not ', '') or 'true'}")
    if draw.chance(0.08):
        keys = draw.some([out for out in outputs if out.type != "bool"] or outputs, 1, 2)
        text += optional(f" order by {', '.join(key.text + draw.one(('', ' desc', ' asc')) for key in keys)}")
    if draw.chance(0.06):
        offset = f" offset {draw.one('12')}"
        text += optional(f" limit {draw.one('1235')}{draw.maybe(0.3, offset)}")
    return text


def rate(draw: Draw) -> str:
    """Return an output rate."""
    if draw.chance(0.2):
        return f"output snapshot every {draw.one(['100 milliseconds', '250 milliseconds', '1 sec'])}"
    kind = draw.one(["", "all ", "first ", "last "])
    return f"output {kind}every {draw.one(['2 events', '3 events', '200 milliseconds', '1 sec', '150 milliseconds'])}"


def outputs(draw: Draw) -> str:
    """Return which events an `insert` takes."""
    return draw.weighted([("", 6), ("all events ", 3), ("expired events ", 1), ("current events ", 1)])
