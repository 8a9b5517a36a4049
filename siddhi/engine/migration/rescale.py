"""Redistribution of state by key, from m instances of an app to n.

    m snapshots            each with the keys that were its own
         │  every key goes to the instance that owns it now
         ▼
    n snapshots            each with the keys that are its own from now on

State has a key where the planner allows parallel execution by key. This is so for the instances of a partition with the
state of its queries (windows, patterns, joins, aggregates, rates, times of last events), and for the groups of a query
without a window that groups by the attribute by which its stream is distributed. All other state has no key: tables,
named windows, aggregations, triggers, and queries with state over all events. It must be empty, or the state cannot be
redistributed.

All new instances take the latest of the old clocks, as one engine for all keys would have. A timer of an instance that
was behind fires with the next step, like any timer set for a past time; no timer is lost or fires twice.

If the app was also edited, its new version first takes over the matching state from each old instance (`adopt`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from siddhi.analysis import model
from siddhi.analysis.expression.walk import has_aggregate
from siddhi.engine.app_runtime import AppRuntime
from siddhi.engine.columnar.state_tree import Buffer, NotByKeyError, State, map_codes, same_state
from siddhi.engine.columnar.strings import NULL_CODE, StringPool
from siddhi.engine.jit.arrays import NO_POSITIONS, Int64Array
from siddhi.engine.operators.fused_windows.sliding import SlidingSelection
from siddhi.engine.operators.partitions.place import PartitionPlace
from siddhi.engine.operators.partitions.registry import PartitionInstances
from siddhi.engine.operators.selection.selector import Selector
from siddhi.engine.planner.query import QueryNode
from siddhi.engine.snapshots.app_state import AppState
from siddhi.engine.snapshots.envelope import unusable
from siddhi.engine.snapshots.matching import LostPart, PartName, name_of
from siddhi.engine.snapshots.snapshot import AppPart, SavedApp, SavedPart, read_snapshot, write_snapshot
from siddhi.engine.streams.clock import ClockState, latest
from siddhi.errors import SnapshotError
from siddhi.language.ast import AttributeType

Owner = Callable[[pa.Array], Int64Array]
"""Return the instance, from 0, that owns each of the keys.

Floats and doubles are passed as such, all others and the labels of ranges as texts (utf8).
"""


@dataclass(frozen=True, slots=True)
class KeyShare:
    """How the new instances divide one input stream by key.

    The key is the value of `attribute` or, where that is None, the expression or the ranges of the partitions that
    read the stream.
    """

    attribute: str | None
    owner: Owner


@dataclass(frozen=True, slots=True)
class AdoptedState:
    """The `snapshots` of instances of an edited app, as snapshots of the new version.

    `left` names the state that the new version does not have; `begun` names the parts that are new or defined
    differently.
    """

    snapshots: tuple[bytes, ...]
    left: tuple[LostPart, ...]
    begun: frozenset[PartName]


def adopt(snapshots: Sequence[Buffer], apps: Sequence[model.AnalysedApp]) -> AdoptedState:
    """Return the state that each of `apps`, the old instances in their new form, takes over from its snapshot.

    See `AppRuntime.restore_matching`. Raise `SnapshotError` for bytes that are not a snapshot.
    """
    taken: list[bytes] = []
    left: dict[LostPart, None] = {}
    begun: set[PartName] = set()
    for snapshot, app in zip(snapshots, apps, strict=True):
        runtime = AppRuntime(app)
        report = runtime.restore_matching(snapshot)
        taken.append(runtime.snapshot())
        left.update(dict.fromkeys(report.left))
        begun.update(report.begun)
    return AdoptedState(tuple(taken), tuple(left), frozenset(begun))


def redistribute(
    snapshots: Sequence[Buffer],
    apps: Sequence[model.AnalysedApp],
    shares: Mapping[str, KeyShare],
    begun: Collection[PartName] = (),
) -> list[bytes]:
    """Return a snapshot for each of `apps`, the new instances, with the state in `snapshots` of all old ones.

    The apps are the same except for the ranges of partitions. `shares` gives the owners of keys for each input stream
    that is distributed by key; all other streams go to every instance, or to any. Parts in `begun` that have no key
    start at the latest of the clocks.

    Raise `SnapshotError` with code `snapshot-not-by-key` when there is state without a key, `snapshot-of-another-app`
    when a snapshot has other parts than `apps`.
    """
    checked = {stream: replace(share, owner=_checked(share.owner, len(apps))) for stream, share in shares.items()}
    return [write_snapshot(_instance(snapshots, app, index, checked, begun)) for index, app in enumerate(apps)]


def _checked(owner: Owner, count: int) -> Owner:
    """Return `owner` with a check that it only returns instances below `count`; state of other owners would be lost."""

    def owners(keys: pa.Array) -> Int64Array:
        found = owner(keys)
        if len(found) and not 0 <= int(found.min()) <= int(found.max()) < count:
            raise ValueError(f"there are {count} instances, and a key is owned by another")
        return found

    return owners


def _instance(
    snapshots: Sequence[Buffer],
    app: model.AnalysedApp,
    index: int,
    shares: Mapping[str, KeyShare],
    begun: Collection[PartName],
) -> SavedApp:
    """Return the state of the new instance `index`, which runs `app`, from all `snapshots`."""
    fresh = AppRuntime(app)
    firsts: Counter[str] = Counter()
    owned = [_owned(snapshot, app, index, shares, firsts) for snapshot in snapshots]
    strings = StringPool()
    states: list[list[State]] = []
    for one in owned:
        pool = StringPool()
        pool.restore(one.saved.strings)
        codes = strings.absorb(pool)
        states.append([_recoded(part.state, codes) for part in one.saved.parts])
    clock = latest(one.saved.clock for one in owned)
    waits = all(one.saved.waits for one in owned)
    beginnings = _beginnings(app, clock, begun, waits=waits)
    joined = tuple(
        SavedPart(part.definition, _joined(part, [state[place] for state in states], owned, shares, beginnings))
        for place, part in enumerate(fresh.state.parts)
    )
    return replace(fresh.saved(), clock=clock, strings=strings.snapshot(), parts=joined, waits=waits)


def _beginnings(
    app: model.AnalysedApp, clock: ClockState | None, begun: Collection[PartName], *, waits: bool
) -> dict[PartName, State]:
    """Return the initial states of the parts `begun` at `clock`; without a clock they wait for the first event."""
    if not begun:
        return {}
    runtime = AppRuntime(app)
    runtime.restore_matching(write_snapshot(replace(runtime.saved(), clock=clock, parts=(), waits=waits)))
    parts = {name_of(part.definition): part.holder for part in runtime.state.parts}
    return {name: parts[name].snapshot() for name in begun}


def _recoded(state: State, codes: Int64Array) -> State:
    return map_codes(state, lambda old: codes[np.maximum(old, NULL_CODE)])


# ---- the part of an old instance for a new one


@dataclass(frozen=True, slots=True)
class _Owned:
    """State of an old instance for a new one; `ids` are the new numbers of the instances of each partition."""

    saved: SavedApp
    ids: Mapping[str, Int64Array]


def _owned(
    snapshot: Buffer, app: model.AnalysedApp, index: int, shares: Mapping[str, KeyShare], firsts: Counter[str]
) -> _Owned:
    """Return the part of `snapshot` that belongs to keys of the new instance `index`.

    `firsts` counts what earlier snapshots have contributed: the instances of each partition, and the groups of each
    of its queries.
    """
    runtime = AppRuntime(app)
    saved, state = read_snapshot(snapshot), runtime.state  # a runtime uses the arrays of a state and changes them
    _check_parts(saved, state)
    runtime.continue_from(saved)
    if not all(place.instances.settled for place in state.places):
        runtime.advance_time(0)  # the next step notifies queries of new instances in any case
    ids = {}
    for place in state.places:
        _drop_instances(place, index, shares)
        ids[place.name] = place.instances.numbers(firsts[place.name])
        firsts[place.name] += len(place.instances)
    for query in state.queries:
        key = _group_key(query, shares)
        if key is not None:
            groups, keys = _grouped(query).keys_of_groups(key)
            _grouped(query).keep_groups(groups[_share(query, shares).owner(keys) == index])
        elif query.partition is not None and query.limiter is not None and isinstance(query.selector, Selector):
            count = query.selector.groups.count
            query.limiter.renumber_groups(firsts[query.name] + np.arange(count))
            firsts[query.name] += count
    runtime.compact()
    return _Owned(read_snapshot(runtime.snapshot()), ids)


def _check_parts(saved: SavedApp, state: AppState) -> None:
    """Check that the app has the saved parts; the ranges of its partitions may differ."""
    own = [replace(part.definition, ranges=b"") for part in state.parts]
    if [replace(part.definition, ranges=b"") for part in saved.parts] != own:
        raise unusable("snapshot-of-another-app", "it belongs to another app than the new instances")


def _drop_instances(place: PartitionPlace, index: int, shares: Mapping[str, KeyShare]) -> None:
    """Drop the instances of `place` that other instances than the new `index` own."""
    texts, ids = place.instances.keys()
    if not texts:
        return
    shared = next((key for key in place.analysed.keys if key.stream in shares), None)
    if shared is None:
        raise _not_by_key(f"partition {place.name}")
    place.drop(ids[shares[shared.stream].owner(_keys(texts, shared)) != index])


def _keys(texts: list[str], key: model.PartitionKey) -> pa.Array:
    """Return the keys in the type that an `Owner` takes."""
    if key.expression is None or key.expression.type not in _REALS:
        return pa.array(texts, pa.utf8())
    return pa.array([float(text) for text in texts], pa.float64()).cast(_REALS[key.expression.type])


_REALS = {AttributeType.FLOAT: pa.float32(), AttributeType.DOUBLE: pa.float64()}


def _group_key(query: QueryNode, shares: Mapping[str, KeyShare]) -> str | None:
    """Return the attribute by which `query` groups and its stream is distributed.

    Return None when there is none, or when the query is in a partition.
    """
    source = query.analysed.input
    if query.partition is not None or not isinstance(source, model.SourceInput) or source.source not in shares:
        return None
    selection, attribute = query.analysed.selection, shares[source.source].attribute
    if selection.having is not None and has_aggregate(selection.having):
        return None  # the output rate counts over all groups
    keys = [key.name for key in selection.group_by if isinstance(key, model.AttributeValue)]
    return attribute if attribute in keys and isinstance(query.selector, Selector | SlidingSelection) else None


def _share(query: QueryNode, shares: Mapping[str, KeyShare]) -> KeyShare:
    return shares[query.sources[0]]


def _grouped(query: QueryNode) -> Selector | SlidingSelection:
    assert isinstance(query.selector, Selector | SlidingSelection)  # noqa: S101 - it has a key by which it groups
    return query.selector


# ---- joining the parts in a new instance


def _joined(
    part: AppPart,
    states: Sequence[State],
    owned: Sequence[_Owned],
    shares: Mapping[str, KeyShare],
    beginnings: Mapping[PartName, State],
) -> State:
    """Return one state for `part`, which is empty, from all `states`.

    A part that starts without state and has no key takes its state from `beginnings`.
    """
    holder, definition = part.holder, part.definition
    try:
        if isinstance(holder, PartitionInstances):
            return holder.joined(states, [one.ids[definition.name] for one in owned])
        if isinstance(holder, QueryNode) and holder.partition is not None:
            return holder.joined(states, [one.ids[holder.partition.name] for one in owned])
        if isinstance(holder, QueryNode) and _group_key(holder, shares) is not None:
            return holder.joined(states, [NO_POSITIONS for _ in owned])
        if name_of(definition) in beginnings:
            return beginnings[name_of(definition)]
        own = holder.snapshot()
        if all(same_state(state, own) for state in states):
            return own
    except NotByKeyError as error:
        raise _not_by_key(str(name_of(definition))) from error
    raise _not_by_key(str(name_of(definition)))


def _not_by_key(part: str) -> SnapshotError:
    return unusable("snapshot-not-by-key", f"the {part} has state without a key, or state of several instances")
