"""Derive names for unnamed queries and partitions from their place in the flow of events.

A query is named after its inputs and output (`Clicks_to_Busy`), a partition after its streams and keys
(`Clicks_Logins_by_user_id`), a query inside a partition after both (`sessions.Clicks_to_Busy`). Further ones with the
same name get `_2`, `_3` and so on. So an edit inside a query, or a new query elsewhere, does not rename the others.
Only a new query in front of others with the same streams does.

A name that a plan gives to a query in a partition need only be unique there. Where an element elsewhere has the same
name, the query is called `partition.name`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from query_plan.annotations import read_distribution, written_name
from query_plan.components.elements import sources, syntax_of
from query_plan.model import PUBLISHER_NAME, RECEIVER_NAME
from siddhi.analysis import model
from siddhi.language import ast

MAXIMUM_CHARACTERS = 100
"""The maximum length of a name made of stream names; an ordinal may follow."""


@dataclass(frozen=True, slots=True)
class ElementName:
    """The name of a query or partition, whether the plan itself sets it, and the names of the queries inside."""

    name: str
    written: bool
    inside: tuple[str, ...] = ()


def element_names(app: model.AnalysedApp) -> tuple[ElementName, ...]:
    """Return the names of `app.elements`, in their order; generated names never equal a name from the plan."""
    free = _Free(given_names(app), _names_outside(app))
    return tuple(
        _partition_name(element, free) if isinstance(element, model.AnalysedPartition) else _query_name(element, free)
        for element in app.elements
    )


class _Free:
    """Hands out each name once; `used` are the names that the plan itself gives."""

    def __init__(self, taken: Iterable[str], used: Iterable[str]) -> None:
        self._taken = set(taken)
        self._used = set(used)

    def own(self, written: str, partition: str) -> str:
        """Return the name of a query in `partition`, prefixed with the partition's if another element has it."""
        if written in self._used:
            return self.take(f"{partition}.{written}")
        self._used.add(written)
        return written

    def take(self, wanted: str) -> str:
        """Return `wanted`, or `wanted_2` and so on when it is taken."""
        name, ordinal = wanted, 1
        while name in self._taken:
            ordinal += 1
            name = f"{wanted}_{ordinal}"
        self._taken.add(name)
        return name


def given_names(app: model.AnalysedApp) -> Iterator[str]:
    """Return all names of stages, queries and partitions that the plan itself gives, and those that every plan has."""
    yield from (RECEIVER_NAME, PUBLISHER_NAME, *app.triggers, *app.aggregations)
    for element in app.syntax.elements:
        group = read_distribution(element.annotations).group
        inside = element.queries if isinstance(element, ast.Partition) else ()
        names = (written_name(one.annotations) for one in (element, *inside))
        yield from (name.text for name in (group, *names) if name is not None)


def _names_outside(app: model.AnalysedApp) -> Iterator[str]:
    """Yield the written names of groups, partitions and the queries outside partitions."""
    for element in app.syntax.elements:
        names = (read_distribution(element.annotations).group, written_name(element.annotations))
        yield from (name.text for name in names if name is not None)


def _query_name(query: model.AnalysedQuery, free: _Free) -> ElementName:
    written = written_name(query.syntax.annotations)
    return ElementName(written.text if written else free.take(_query_place(query)), written is not None)


def _partition_name(partition: model.AnalysedPartition, free: _Free) -> ElementName:
    written = written_name(syntax_of(partition).annotations)
    name = written.text if written else free.take(_partition_place(partition))
    inside = tuple(
        free.own(own.text, name)
        if (own := written_name(query.syntax.annotations))
        else free.take(f"{name}.{_query_place(query)}")
        for query in partition.queries
    )
    return ElementName(name, written is not None, inside)


def _query_place(query: model.AnalysedQuery) -> str:
    return _joined(source.source for source in sources(query)) + "_to_" + _joined((query.output.target or "return",))


def _partition_place(partition: model.AnalysedPartition) -> str:
    return f"{_joined(key.stream for key in partition.keys)}_by_{_joined(map(_key_word, partition.keys))}"


def _key_word(key: model.PartitionKey) -> str:
    if isinstance(key.expression, model.AttributeValue):
        return key.expression.name
    return "ranges" if key.ranges else "expression"


def _joined(names: Iterable[str]) -> str:
    """Return the distinct `names` in order, joined, without special characters."""
    words = (re.sub(r"\W+", "_", name).strip("_") for name in dict.fromkeys(names))
    return "_".join(words)[:MAXIMUM_CHARACTERS]
