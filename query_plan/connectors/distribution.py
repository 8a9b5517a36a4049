"""`@distribution` of sinks: the destinations, and which events each gets.

A sink with destinations is one connector whose options include those of its destinations
(`distribution.destination.0.x`). When the plan is compiled, `broadcast` and `partitioned` become one sink for each
destination, so that a slow destination does not delay the others. `roundRobin` stays one sink, which sends events to
other destinations when one fails.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from cep_common.protocol.registry import Connector
from query_plan.connectors.options import Fault, FaultKind
from siddhi.language import ast

NAME = "distribution"
STRATEGY = "distribution.strategy"
KEY = "distribution.partitionKey"
COUNT = "distribution/destinations"
SHARE = "distribution/share"
"""Options that only the compiler writes: annotations cannot have an option with a slash."""
ROUND_ROBIN, PARTITIONED, BROADCAST = STRATEGIES = ("roundRobin", "partitioned", "broadcast")
_OURS = re.compile(rf"{NAME}(?:[./].*)?")
_DESTINATION = re.compile(r"distribution\.destination\.(\d+)\.(.+)")
_SHARE = re.compile(r"(\d{1,4})/([1-9]\d{0,3})")
_WORDS = {one.rpartition(".")[2].casefold(): one for one in (STRATEGY, KEY)}
_MOST_DIGITS = 4


@dataclass(frozen=True, slots=True)
class DestinationShare:
    """The events whose `key` has a hash code that leaves the remainder `index` when divided by `count`."""

    key: str
    index: int
    count: int


def options_of_distribution(annotation: ast.Annotation) -> Iterator[tuple[str, str]]:
    """Yield the elements of `@distribution` as options of its sink."""
    for element in annotation.elements:
        yield option_name(element), element.value
    destinations = destinations_in(annotation)
    for number, destination in enumerate(destinations):
        for element in destination.elements:
            yield f"{NAME}.destination.{number}.{element.key or ''}", element.value
    if destinations:
        yield COUNT, str(len(destinations))


def option_name(element: ast.AnnotationElement) -> str:
    """Return the name of the sink's option for an element of `@distribution`; letter case does not matter."""
    name = element.key or ""
    return _WORDS.get(name.casefold(), f"{NAME}.{name}".rstrip("."))


def destinations_in(annotation: ast.Annotation) -> list[ast.Annotation]:
    """Return each `@destination` of a `@distribution`."""
    return [one for one in annotation.annotations if one.name.casefold() == "destination"]


def is_distributed(options: Mapping[str, str]) -> bool:
    """Return whether a sink has several destinations, or is one of several sinks that share the events."""
    return any(map(_OURS.fullmatch, options))


def own_options(options: Mapping[str, str]) -> tuple[dict[str, str], ...]:
    """Return the options of each destination alone."""
    written = options.get(COUNT, "0")
    count = int(written) if written.isdecimal() and len(written) <= _MOST_DIGITS else 0
    found: tuple[dict[str, str], ...] = tuple({} for _ in range(count))
    for name, text in options.items():
        match = _DESTINATION.fullmatch(name)
        if match and int(match[1]) < len(found):
            found[int(match[1])][match[2]] = text
    return found


def destinations_of(sink: Connector) -> tuple[Connector, ...]:
    """Return one sink for each destination, without the options of `@distribution`; `sink` alone if it has none."""
    common = {name: text for name, text in sink.options.items() if _OURS.fullmatch(name) is None}
    each = own_options(sink.options) or ({},)
    return tuple(msgspec.structs.replace(sink, options=common | own) for own in each)


def separated(sink: Connector) -> tuple[Connector, ...]:
    """Return the sinks that workers run for `sink`: one for each destination, except with `roundRobin`."""
    strategy, count = _strategy(sink.options), len(own_options(sink.options))
    if not count or strategy not in (PARTITIONED, BROADCAST) or (strategy == PARTITIONED and KEY not in sink.options):
        return (sink,)
    each = destinations_of(sink)
    if strategy == BROADCAST:
        return each
    return tuple(
        msgspec.structs.replace(one, options=one.options | {KEY: sink.options[KEY], SHARE: f"{index}/{count}"})
        for index, one in enumerate(each)
    )


def takes_turns(options: Mapping[str, str]) -> bool:
    """Return whether the sink tries its destinations in turn (`roundRobin`)."""
    return _strategy(options) == ROUND_ROBIN


def share_of(options: Mapping[str, str]) -> DestinationShare | None:
    """Return the share of the events that a destination's sink gets; None means all."""
    written = _SHARE.fullmatch(options.get(SHARE, ""))
    return DestinationShare(options[KEY], int(written[1]), int(written[2])) if written and KEY in options else None


def keeps_assignment(former: Sequence[Connector], edited: Sequence[Connector]) -> bool:
    """Return whether an edit of a stream's sinks keeps the assignment of waiting events to destinations.

    It does not if it removes a sink, or changes the number or order of destinations that share events, their strategy
    or key.
    """
    if not any(is_distributed(one.options) for one in (*former, *edited)):
        return len(edited) >= len(former)  # each gets all events and is identified by its options
    if [_rule(one) for one in former] != [_rule(one) for one in edited]:
        return False
    had, has = ([own for sink in sinks for own in destinations_of(sink)] for sinks in (former, edited))
    return all(now == before or now not in had for before, now in zip(had, has, strict=True))


def _rule(sink: Connector) -> tuple[str, dict[str, str]]:
    options = sink.options.items()
    return sink.type, {
        name: text for name, text in options if _OURS.fullmatch(name) and not _DESTINATION.fullmatch(name)
    }


def distribution_faults(options: Mapping[str, str], attributes: Sequence[str]) -> Iterator[Fault]:
    """Yield the faults of a sink's `@distribution`."""
    if share_of(options) is not None:
        return
    known = {STRATEGY, KEY, COUNT}
    for name in options:
        if _OURS.fullmatch(name) and name not in known and _DESTINATION.fullmatch(name) is None:
            yield Fault(name, "unknown option", "known: strategy, partitionKey, @destination(…)", FaultKind.UNKNOWN)
    strategy = _strategy(options)
    if strategy not in STRATEGIES:
        written = f", not {options[STRATEGY][:40]!r}" if STRATEGY in options else ""
        yield Fault(STRATEGY, f"must be {' or '.join(STRATEGIES)}{written}")
    if not own_options(options):
        yield Fault(NAME, "has no destination", "write an @destination(…) for each destination within @distribution(…)")
    key = options.get(KEY)
    if strategy == PARTITIONED and key is None:
        yield Fault(KEY, "must name the attribute by which events are distributed")
    elif strategy == PARTITIONED and key not in attributes:
        yield Fault(KEY, f"no such attribute: {key}")
    elif key is not None and strategy in (ROUND_ROBIN, BROADCAST):
        yield Fault(KEY, f"has no effect with the strategy {strategy}", "take it out", FaultKind.IDLE)


def _strategy(options: Mapping[str, str]) -> str:
    written = options.get(STRATEGY, "")
    return next((one for one in STRATEGIES if one.casefold() == written.strip().casefold()), written)
