"""Annotations of tables, aggregations and partitions change results, or are reported: none is ignored silently."""

from __future__ import annotations

from typing import Any

import pytest

from query_plan.checks.annotation_names import _AGGREGATION, _PARTITION, _QUERY, _TABLE
from query_plan.examination import examine
from siddhi.testing import Case, record_answers

STREAM = "@app:name('P') @app:playback define stream S (k string, n int); define stream R (k string); "
TABLE = (
    "◊ define table T (k string, n int); from S insert into T;"
    " from R join T on R.k == T.k select T.k as k, T.n as n insert into O;"
)
AGGREGATION = (
    "◊ define aggregation A from S select k, sum(n) as n group by k aggregate every sec...day;"
    " from R join A within '1970-01-01 **:**:**' per 'seconds' select A.k as k, A.n as n insert into O;"
)
PARTITION = "◊ partition with (k of S) begin from S select k, sum(n) as n insert into O; end;"
RDBMS = "type='rdbms', jdbc.url='jdbc:postgresql://h/d', username='u', password='p'"
RETAINED = "@retentionPeriod(sec='120 sec')"


def _event(stream: str, timestamp: int, *data: Any) -> dict[str, Any]:
    return {"stream": stream, "timestamp": timestamp, "data": list(data)}


EVENTS = [
    _event("S", 1000, "a", 1),
    _event("S", 2500, "a", 2),
    {"advance_time": 200_000},
    _event("S", 400_000, "a", 4),
    {"advance_time": 900_000},
    _event("R", 900_001, "a"),
]
EFFECTS = {
    "PrimaryKey": (TABLE, "", "@PrimaryKey('k')"),
    "PrimaryKey of two": (TABLE, "@PrimaryKey('k')", "@PrimaryKey('k', 'n')"),
    "aggregation purge": (AGGREGATION, "", f"@purge(enable='true', interval='10 sec', {RETAINED})"),
    "aggregation purge enable": (
        AGGREGATION,
        f"@purge(enable='true', interval='10 sec', {RETAINED})",
        f"@purge(enable='false', interval='10 sec', {RETAINED})",
    ),
    "aggregation purge interval": (
        AGGREGATION,
        f"@purge(enable='true', interval='10 sec', {RETAINED})",
        f"@purge(enable='true', interval='1 day', {RETAINED})",
    ),
    "aggregation purge retentionPeriod": (
        AGGREGATION,
        f"@purge(enable='true', interval='10 sec', {RETAINED})",
        "@purge(enable='true', interval='10 sec', @retentionPeriod(sec='all'))",
    ),
    "partition purge": (PARTITION, "", "@purge(enable='true', interval='1 sec', idle.period='2 sec')"),
    "partition purge enable": (
        PARTITION,
        "@purge(enable='true', interval='1 sec', idle.period='2 sec')",
        "@purge(enable='false', interval='1 sec', idle.period='2 sec')",
    ),
    "partition purge interval": (
        PARTITION,
        "@purge(enable='true', interval='1 sec', idle.period='2 sec')",
        "@purge(enable='true', interval='1 hour', idle.period='2 sec')",
    ),
    "partition purge idle.period": (
        PARTITION,
        "@purge(enable='true', interval='1 sec', idle.period='2 sec')",
        "@purge(enable='true', interval='1 sec', idle.period='1 hour')",
    ),
}
"""What differs: a plan, and two spellings of its annotation that give different results."""
REPORTED = [
    (TABLE, "@cache(size='10')", "annotation-unknown"),
    (TABLE, "@purge(enable='true')", "annotation-unknown"),
    (AGGREGATION, "@store(type='memory')", "store-kept-in-memory"),
    (AGGREGATION, f"@store({RDBMS})", "store-kept-in-memory"),
    (AGGREGATION, "@BufferSize('5')", "annotation-unknown"),
    (AGGREGATION, "@IgnoreEventsOlderThanBuffer('true')", "annotation-unknown"),
    (AGGREGATION, "@PartitionById", "annotation-without-effect"),
    (AGGREGATION, "@PartitionById(enable='true')", "annotation-without-effect"),
    (AGGREGATION, "@Index('k')", "annotation-unknown"),
    (AGGREGATION, "@PrimaryKey('k')", "key-not-here"),
]


def _results(plan: str, annotation: str) -> list[Any]:
    document: dict[str, Any] = {"events": EVENTS, "start_time": 900, "listen": {"streams": ["O"], "queries": []}}
    rows: list[Any] = record_answers(Case("P", "P", STREAM + plan.replace("◊", annotation), document))["streams"]["O"]
    return rows


def _reported(plan: str, annotation: str) -> set[str]:
    return {finding.problem.code for finding in examine(STREAM + plan.replace("◊", annotation)).findings}


@pytest.mark.parametrize("name", EFFECTS)
def test_the_annotation_changes_results_and_is_not_reported(name: str) -> None:
    plan, one, other = EFFECTS[name]
    assert _results(plan, one) != _results(plan, other)
    assert _reported(plan, one) == _reported(plan, other) == _reported(plan, "")


@pytest.mark.parametrize(("plan", "annotation", "code"), REPORTED)
def test_an_annotation_without_effect_is_reported(plan: str, annotation: str, code: str) -> None:
    assert code in _reported(plan, annotation)


@pytest.mark.parametrize("option", ["size='10'", "cache.policy='LRU'", "retention.period='1 min'"])
def test_a_cache_is_reported_as_all_rows_are_in_memory(option: str) -> None:
    stored, cached = (_reported(TABLE, f"@store({RDBMS}{cache})") for cache in ("", f", @cache({option})"))
    assert len(cached - stored) == 1


def test_an_index_changes_no_rows() -> None:
    assert _results(TABLE, "@Index('k')") == _results(TABLE, "")
    assert _reported(TABLE, "@Index('k')") == _reported(TABLE, "")


def test_every_option_of_these_annotations_is_tested() -> None:
    places = {"table": _TABLE, "aggregation": _AGGREGATION, "partition": _PARTITION}
    options = {
        f"{place} {known.name} {option}"
        for place, names in places.items()
        for known in names
        if known not in _QUERY
        for option in (*known.options, *(nested.name for nested in known.nested if nested.name == "retentionPeriod"))
    }
    assert options <= set(EFFECTS)
    assert options
