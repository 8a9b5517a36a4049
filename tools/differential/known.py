"""Known differences from Siddhi, each with its reason.

They are those of docs/siddhiql/differences.md, and faults of Siddhi's that random cases trigger and no plan should
rely on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class KnownDifference:
    """A known difference.

    It has a name (that of docs/siddhiql/differences.md, if it is there), a reason, and a test of which cases may
    show it.
    """

    name: str
    reason: str
    shows: Callable[[Document], bool]
    in_table: bool = True


def _text(pattern: str) -> Callable[[Document], bool]:
    found = re.compile(pattern)
    return lambda document: found.search(document["app"]) is not None


def is_late(document: Document) -> bool:
    """Return whether some event is older than one before it, or than the clock."""
    clock = document.get("start_time", 0)
    for event in document["events"]:
        times = [row["timestamp"] for row in event.get("batch", [event] if "timestamp" in event else [])]
        if any(time < clock for time in times):
            return True
        clock = max([clock, event.get("advance_time", 0), *times])
    return False


_KEY = r"@PrimaryKey\("
_INDEX = r"@Index\("
_KEY_IN_TABLE = re.compile(_KEY)
_BY_TIME = r"(time|timeLength|timeBatch|delay|externalTime|session)\("
_BATCHES = r"(lengthBatch|timeBatch|externalTimeBatch|batch|expressionBatch)\("


def _joins_batches(document: Document) -> bool:
    """Return whether a batch window is a side of a join of current events, or a named one that outputs these only."""
    if re.search(rf"define window .*\) {_BATCHES}.*output current events", document["app"]):
        return True
    queries = document["app"].split(";")
    return any(" join " in query and re.search(_BATCHES, query) and "expired" not in query for query in queries)


def _sums_longs_beyond_double(document: Document) -> bool:
    """Return whether longs are summed of which some have more digits than a double."""
    rows = [row for event in document["events"] for row in event.get("batch", [event]) if "data" in row]
    long = any(type(value) is int and abs(value) > 1 << 53 for row in rows for value in row["data"])
    return long and re.search(r"\b(sum|avg)\((\w+\.)?\w+\)", document["app"]) is not None


def _has_nulls(document: Document) -> bool:
    """Return whether some event has a null."""
    rows = [row for event in document["events"] for row in event.get("batch", [event]) if "data" in row]
    return any(value is None for row in rows for value in row["data"])


def _deletes_from_plain_table(document: Document) -> bool:
    plain = re.findall(r"(?m)^define table (\w+)", document["app"])
    texts = [document["app"], *(event.get("query", "") for event in document["events"])]
    return any(f"delete {table} " in text for table in plain for text in texts)


def _state_queries(document: Document) -> list[str]:
    """Return the pattern or sequence of each query that has one."""
    found = re.findall(r"from ((?:every )?\(?(?:e\d+=|not )[^;]*?) select ", document["app"])
    return [str(text) for text in found]


def _is_sequence(machine: str) -> bool:
    return re.search(r", (e\d+=|not )", machine) is not None


def _counts_in_sequence(document: Document) -> bool:
    counted = re.compile(r"<[2-9]:?\d*>|(\+|\*|\?|<\d*:\d*>)( within .*)?$")
    return any(_is_sequence(machine) and counted.search(machine) for machine in _state_queries(document))


def _pairs(document: Document, *, sequence: bool) -> bool:
    """Return whether a pair with `and` or `or` is part of a sequence, or is the whole pattern."""
    machines = [one for one in _state_queries(document) if re.search(r" (and|or) (e\d+=|not )", one)]
    return any(_is_sequence(one) if sequence else "->" not in one and not _is_sequence(one) for one in machines)


def _loses_silences(document: Document) -> bool:
    """Return whether a `not … for` stands first under `every`, behind a count, or in a pair while events come late."""
    for machine in _state_queries(document):
        if re.search(r"every \(*not [^;]* for |(<\d*:\d*>|[*+?])(,| ->) (every )?\(*not [^;]* for ", machine):
            return True
        if is_late(document) and re.search(r"not [^;]* for [^;]* (and|or) |(and|or) not [^;]* for ", machine):
            return True
    return False


_OPTIONAL = re.compile(r"(every )?\(*e\d+=.*(<0?:\d*>|[*?])\)?")
_BEFORE_NEXT = re.compile(r"(?:,| ->) (?=(?:every )?\(*(?:e\d+=|not ))")


def _begins_with_optional_before_silence(machine: str) -> bool:
    """Return whether nothing but optional elements precedes the first `not … for` of a pattern or sequence."""
    first, *others = _BEFORE_NEXT.split(machine)
    while others and _OPTIONAL.fullmatch(first):
        first, *others = others
        if re.search(r"\bnot [^;]* for ", first):
            return re.search(r" (and|or) ", first) is None
    return False


def _reads_silences_of_chunks(document: Document) -> bool:
    """Return whether a window or a rate reads the matches of `not … for`, and a chunk has several times."""
    chunks = [{row["timestamp"] for row in event["batch"]} for event in document["events"] if "batch" in event]
    if not any(len(times) > 1 for times in chunks):
        return False
    for query in re.findall(r"from [^;]*\bnot [^;]* for \d[^;]*;", document["app"]):
        target = re.search(r"insert (?:\w+ events )?into (#?\w+)", query)
        readers = rf"from {re.escape(target[1])}(#window| [^;]* output )" if target else "$^"
        if " output " in query or re.search(readers, document["app"]):
            return True
    return False


def _reads_chunks_behind_partition(document: Document) -> bool:
    """Return whether a chunk of several events enters a partition whose output is read outside of it."""
    chunks = {event["stream"] for event in document["events"] if len(event.get("batch", ())) > 1}
    for partition in re.findall(r"(?s)partition with .*? begin .*?\bend;", document["app"]):
        keyed = re.search(r"\((.*?)\) begin", partition)
        if keyed is None or chunks.isdisjoint(re.findall(r" of (\w+)", keyed[1])):
            continue
        outside = document["app"].replace(partition, "")
        for target in re.findall(r"insert (?:\w+ events )?into (\w+)", partition):
            if re.search(rf"(from|join|=|not)\s+{target}\b|={target}\b", outside):
                return True
    return False


def _reads_behind_an_entrance(document: Document) -> bool:
    """Return whether a partition reads a stream that a query feeds, and a listener or another query does, too."""
    app = document["app"]
    fed = set(re.findall(r"insert (?:\w+ events )?into (\w+)", app))
    heard = set(document.get("listen", {}).get("streams", ()))
    for partition in re.findall(r"(?s)partition with .*? begin .*?\bend;", app):
        keyed = re.search(r"\((.*?)\) begin", partition)
        outside = app.replace(partition, "")
        for stream in fed.intersection(re.findall(r" of (\w+)", keyed[1] if keyed else "")):
            if stream in heard or re.search(rf"(from|join|=|not|of)\s*\b{stream}\b", outside):
                return True
    return False


def _mixes_pair_with_its_stream(document: Document) -> bool:
    """Return whether a stream is used in `not … and` and elsewhere in the same pattern."""
    for machine in _state_queries(document):
        for stream in re.findall(r"not (\w+)", machine):
            if len(re.findall(rf"\b{stream}\b", machine)) > 1:
                return True
    return False


KNOWN: tuple[KnownDifference, ...] = (
    KnownDifference(
        "sequences-count",
        "counts with a minimum of 2 and more, and counted last elements, never match in Siddhi's sequences",
        _counts_in_sequence,
    ),
    KnownDifference(
        "and-takes-neighbours",
        "`A and B` of one stream in a sequence",
        lambda document: _pairs(document, sequence=True),
    ),
    KnownDifference(
        "and-needs-no-order",
        "a pattern of nothing but `A and B` loses its match in Siddhi when A comes last",
        lambda document: _pairs(document, sequence=False),
    ),
    KnownDifference(
        "late-events-end-nothing",
        "an event that is older than a match by more than `within` ends it in Siddhi",
        lambda document: is_late(document) and " within " in document["app"],
    ),
    KnownDifference(
        "silences-begin-with-their-attempt",
        "behind optional elements without an event, a silence ends at once in Siddhi, with a time before the clock",
        lambda document: any(_begins_with_optional_before_silence(one) for one in _state_queries(document)),
    ),
    KnownDifference(
        "silences-keep-their-timers",
        "the end of a silence may move without a timer in Siddhi, after a jump of the clock or a late event",
        _loses_silences,
    ),
    KnownDifference(
        "all-matches-are-emitted",
        "a stream that completes a pattern and feeds a `not` of the same pattern: Siddhi loses matches",
        _mixes_pair_with_its_stream,
    ),
    KnownDifference(
        "rows-behind-a-cut-row",
        "`having` or `limit` that cuts the last row of a chunk of a join loses the rows behind it in Siddhi",
        lambda document: any(
            " join " in query and re.search(r" (having|limit) ", query) for query in document["app"].split(";")
        ),
    ),
    KnownDifference(
        "no-deviation-below-zero",
        "Siddhi's running sum of squares may fall below zero by rounding, and its root is not a number then",
        _text(r"stdDev\("),
    ),
    KnownDifference(
        "long-sums-exact",
        "what leaves a sum of longs is subtracted through double in Siddhi",
        _sums_longs_beyond_double,
    ),
    KnownDifference(
        "extremes-of-what-is-held",
        "a value that leaves takes a later equal one with it in Siddhi, or the best value alone is remembered",
        _text(r"\b(min|max)(Forever)?\("),
    ),
    KnownDifference(
        "union-set-forgets",
        "an element of a set that came again and left again stays in `unionSet` over a window in Siddhi",
        _text(r"unionSet\("),
    ),
    KnownDifference(
        "float-as-text",
        "the text of a float is the shortest that reads back, as in Java 19 and later; older ones add digits",
        _text(r"'float'\), 'string'\)|convert\([^';]*\bf\b[^';]*, 'string'\)"),
        in_table=False,
    ),
    KnownDifference(
        "set-reads-keyed-tables",
        "Siddhi reads null where `set` of a table with a key or an index reads the stored value",
        _text(rf"(?s)({_KEY}|{_INDEX}).*set Tab\d+\.\w+ = [^;]*Tab\d+\.\w+( \+|;|,| on)"),
    ),
    KnownDifference(
        "rows-leave-at-their-own-time",
        "a window by time is a queue in Siddhi: late rows wait for the next one, one from the future holds up all",
        lambda document: is_late(document) and re.search(_BY_TIME, document["app"]) is not None,
    ),
    KnownDifference(
        "rows-leave-at-their-own-time",
        "a session whose latency is over leaves with the timer of a later session of another key in Siddhi",
        _text(r"session\([^(),]*,[^(),]*,[^(),]*\)"),
    ),
    KnownDifference(
        "backlog-at-its-own-time",
        "events older than the system clock are taken as of now in Siddhi",
        lambda document: is_late(document) and "@app:playback" not in document["app"],
    ),
    KnownDifference(
        "failed-chunks-leave-no-rest",
        "what follows an event that fails in its chunk stays in the aggregates of Siddhi forever",
        _text(r"(math:parseInt|and|or)\("),
    ),
    KnownDifference(
        "open-bucket-of-the-newest",
        "an aggregation shows the part of its open bucket in which a late event came in Siddhi",
        lambda document: is_late(document) and "define aggregation" in document["app"],
    ),
    KnownDifference(
        "within-takes-whole-buckets",
        "the open bucket of an aggregation with `aggregate by` shows some of its parts in Siddhi until it closes",
        lambda document: (
            re.search(r"define aggregation .* aggregate by ", document["app"]) is not None
            and re.search(r"\bwithin .* per ", f"{document['app']}{document['events']}") is not None
        ),
    ),
    KnownDifference(
        "optional-ends-per-key",
        "a pattern in a partition that ends with an optional element comes out too early in Siddhi",
        _text(r"partition with .*<(0)?:\d>( within [^;]*?)? select"),
    ),
    KnownDifference(
        "matches-stay-current",
        "matches of `or` that a rate holds back come out as removed ones in Siddhi",
        _text(r" or e\d+=[^;]* output "),
    ),
    KnownDifference(
        "keyed-rows-in-order",
        "which row of a chunk is the last one, and so represents its group, depends on the order of keyed rows",
        _text(rf"(?s){_KEY}.* join [^;]*( group by | order by | limit | output |Forever\()"),
    ),
    KnownDifference(
        "null-is-a-key-too",
        "an update that changes keys from or to null leaves several rows with one key in Siddhi",
        lambda document: re.search(rf"(?s){_KEY}.* update ", document["app"]) is not None and _has_nulls(document),
    ),
    KnownDifference(
        "queries-change-nothing",
        "rows of a named batch window that an on-demand query asked for leave with their own time in Siddhi",
        lambda document: (
            any("query" in event for event in document["events"])
            and re.search(rf"define window .*\) {_BATCHES}", document["app"]) is not None
        ),
    ),
    KnownDifference(
        "refused-inserts-are-reported",
        "Siddhi reports an on-demand insert of a key in use as done",
        lambda document: (
            _KEY_IN_TABLE.search(document["app"]) is not None
            and any(" insert into " in event.get("query", "") for event in document["events"])
        ),
    ),
    KnownDifference(
        "aggregations-are-filtered",
        "an aggregation with a filter in its input keeps nothing in Siddhi",
        _text(r"define aggregation \w+ from \w+\["),
    ),
    KnownDifference(
        "empty-buckets-hold-nothing",
        "a time without events gives a row of the time 0 without values in Siddhi's aggregations without `group by`",
        _text(r"define aggregation (?!.* group by )(?!.* aggregate by )"),
    ),
    KnownDifference(
        "silences-alike-in-partitions",
        "sequences with `<1:n>` and a silence at the end differ inside and outside a partition in Siddhi",
        _text(r"partition with .*<1:\d*>, not \w+[^;]* for "),
    ),
    KnownDifference(
        "silences-end-with-their-chunk",
        "a silence that is over when a chunk of several times arrives reaches windows and rates later in Siddhi",
        _reads_silences_of_chunks,
    ),
    KnownDifference(
        "chunks-change-no-match",
        "a match that ends with an optional element still takes events behind it in the chunk in Siddhi",
        lambda document: (
            any("batch" in event for event in document["events"])
            and any(re.search(r"<0?:\d>\)?( within .*)?$", machine) for machine in _state_queries(document))
        ),
    ),
    KnownDifference(
        "equal-rows-stay",
        "a table with an index and no key keeps equal rows once in Siddhi",
        _text(_INDEX),
    ),
    KnownDifference(
        "indexes-hold-the-rows",
        "rows found by an index come in the order of a Java hash map, and some that changed are missed",
        _text(_INDEX),
    ),
    KnownDifference(
        "indexes-hold-the-rows",
        "Siddhi deletes nothing where a key must equal something and more is asked",
        _text(rf"(?s){_KEY}.*delete (Tab\d+) on [^;]*( and |not )"),
    ),
    KnownDifference(
        "snapshot-rows-leave",
        "in Siddhi a row stays in the snapshots forever when its aggregates differ as it leaves",
        lambda document: any(
            "output snapshot" in query
            and len(re.findall(r"(sum|avg|count|min|max|stdDev|distinctCount)\w*\(", query)) > 1
            for query in document["app"].split(";")
        ),
    ),
    KnownDifference(
        "deleted-last-row",
        "Siddhi loses rows that come after the last row of a table without a key was deleted",
        _deletes_from_plain_table,
    ),
    KnownDifference(
        "joined-batches-end",
        "a batch window in a join of current events shows every batch since the start in Siddhi",
        _joins_batches,
    ),
    KnownDifference(
        "every-key-has-timers",
        "of equal times of several keys of a partition, Siddhi fires one for each move of the clock",
        _text(r"partition with .*(time|Time|session|delay| for |every \d|within)"),
    ),
    KnownDifference(
        "partitions-hand-on-all",
        "readers behind a partition lose events of a chunk in Siddhi",
        _reads_chunks_behind_partition,
    ),
    KnownDifference(
        "partitions-leave-chunks-whole",
        "of a chunk that a query gives to a partition, later readers of the stream get only the first event in Siddhi",
        _reads_behind_an_entrance,
    ),
)


def reason_for(document: Document) -> KnownDifference | None:
    """Return the first known difference that the case may show."""
    return next((known for known in KNOWN if known.shows(document)), None)
