"""Rules about execution groups whose instances share their state."""

from __future__ import annotations

from collections.abc import Iterator

from query_plan.annotations import (
    DISTRIBUTED,
    MOST_KEPT,
    MOST_MINUTES,
    SNAPSHOT_MINUTES,
    SNAPSHOTS_KEPT,
    AnnotationValue,
    delivery_of,
    kept_checkpoints_of,
    minutes_of,
    named,
    read_header,
)
from query_plan.findings import Finding, error_rule
from query_plan.planning.groups import ExecutionGroup
from query_plan.planning.shared_state import entry_name, log_name
from query_plan.planning.survey import Survey
from siddhi.analysis import model
from siddhi.analysis.parts import parts_of
from siddhi.language import ast

STATE_UNKNOWN = error_rule(
    "shared-state-unknown",
    "`state` or `sync` of `@dist` has an unknown value, or `sync` is given without `state='shared'`",
    "write `state='shared'` and optionally `sync='builtin'` or `sync='kafka'`",
)
STATE_DIFFERS = error_rule(
    "shared-state-differs-in-group",
    "members of one `execGroup` have different `state`, or different `sync`",
    "write `state='shared'` on each of them, or on none, and the same `sync`",
)
STATE_STORED = error_rule(
    "shared-state-in-database",
    "a group with shared state uses a table in a database, to which every instance would write the same rows",
    "take `@store` out, or put the queries that write the table into another group",
)
STATE_RANDOM = error_rule(
    "shared-state-random",
    "a query in a group with shared state calls `UUID()`, which returns a different value in each instance",
    "call it in a query of another group, before or after this group",
)
STATE_NAME_TAKEN = error_rule(
    "shared-state-name-taken",
    "a group, trigger or stream has the name of a stage that a group with shared state needs",
    "choose another name",
)

MODE_UNKNOWN = error_rule(
    "plan-config-unusable",
    "an option of `@Plan:config` has an invalid value, or two of them contradict each other",
    "write an interval in whole minutes up to 10080, either an interval above 0 or distributed processing, and "
    "from 1 to 1000 revisions to keep",
)

_SYNCS = ("builtin", "kafka")


def modes_are_usable(app: ast.App) -> Iterator[Finding]:
    """Check the run-time settings of CEP 2.0: persistence by time, or distributed processing."""
    header = read_header(app)
    interval, distributed = header.snapshot_minutes, header.distributed
    minutes = minutes_of(interval)
    if interval is not None and minutes is None:
        message = f"{SNAPSHOT_MINUTES}='{interval.text[:40]}' is not a whole number from 0 to {MOST_MINUTES}"
        yield MODE_UNKNOWN.broken(message, "write minutes, or 0 to take no checkpoints by time", interval.span)
    kept = header.snapshots_kept
    if kept is not None and kept_checkpoints_of(header) is None:
        message = f"{SNAPSHOTS_KEPT}='{kept.text[:40]}' is not a whole number from 1 to {MOST_KEPT}"
        yield MODE_UNKNOWN.broken(message, "write how many checkpoints are to be kept", kept.span)
    if distributed is not None and distributed.text.strip().casefold() not in ("true", "false"):
        message = f"{DISTRIBUTED}='{distributed.text[:40]}' is neither true nor false"
        yield MODE_UNKNOWN.broken(message, "write 'true' or 'false'", distributed.span)
    if interval is not None and minutes and header.shares_state:
        message = f"{DISTRIBUTED}='true' keeps the state in several instances, an interval above 0 keeps it in a store"
        yield MODE_UNKNOWN.broken(message, "write 0 minutes, or 'false'", interval.span)
    exactly_once = delivery_of(header.delivery) == "exactly-once"
    if interval is not None and minutes == 0 and exactly_once and not header.shares_state:
        message = (
            "the plan delivers exactly once: results are delivered with checkpoints, and with 0 minutes there are none"
        )
        yield MODE_UNKNOWN.broken(message, "write an interval, or another delivery", interval.span)


def shared_state_is_known(plan: Survey) -> Iterator[Finding]:
    """Check the values of `state` and `sync`, and that members of a group agree."""
    for member in plan.members:
        state, sync = member.distribution.state, member.distribution.sync
        if state is not None and not member.distribution.shares_state:
            message = f"state='{state.text}' is unknown"
            yield STATE_UNKNOWN.broken(message, "write state='shared', or leave it out", state.span)
        if sync is not None and state is None:
            message = "sync applies only to state='shared'"
            yield STATE_UNKNOWN.broken(message, "write state='shared' too, or take sync out", sync.span)
        elif sync is not None and sync.text.strip().casefold() not in _SYNCS:
            message = f"sync='{sync.text}' is unknown"
            yield STATE_UNKNOWN.broken(message, "write sync='builtin' or sync='kafka', or leave it out", sync.span)
    for group in plan.groups:
        members = [member for member in group.members if member.distribution.present]
        for member in members[1:]:
            if member.distribution.shares_state != members[0].distribution.shares_state:
                yield STATE_DIFFERS.broken(
                    f"{member.name} and {members[0].name} are both in group {group.name}, but only one of them has"
                    " state='shared'",
                    "write state='shared' on both, or give them different execGroups",
                    member.group_span,
                )
            elif member.distribution.logs_to_kafka != members[0].distribution.logs_to_kafka:
                yield STATE_DIFFERS.broken(
                    f"{member.name} and {members[0].name} are both in group {group.name}, which has one log, but only"
                    " one of them has sync='kafka'",
                    "write sync='kafka' on both, or on none",
                    member.group_span,
                )


def shared_state_stays_equal(plan: Survey) -> Iterator[Finding]:
    """Report functions and stores that would make copies of a state differ, or write to a database several times."""
    for group in plan.groups:
        if group.shares_state:
            yield from _stored(plan, group)
            yield from _random(group)


def stages_of_shared_state_have_names(plan: Survey) -> Iterator[Finding]:
    """Check that no other name equals that of a stage that a group with shared state needs."""
    taken = {*(group.name for group in plan.groups), *plan.app.triggers, *plan.app.streams}
    for group in plan.groups:
        if group.shares_state:
            for name in (entry_name(group.name), log_name(group.name)):
                if any(one == name or one.startswith(f"{name}.") for one in taken):
                    message = f"group {group.name} needs the name {name} for one of its own stages"
                    yield STATE_NAME_TAKEN.broken(message, "choose another name", _state(group).span)


def _stored(plan: Survey, group: ExecutionGroup) -> Iterator[Finding]:
    for member in group.members:
        for name in member.state:
            found = plan.app.tables.get(name) or plan.app.aggregations.get(name)
            if found is not None and any(True for _ in named(found.syntax.annotations, "store")):
                yield STATE_STORED.broken(
                    f"{member.name} uses {name}, which is kept in a database: every instance of {group.name} would"
                    " write to it",
                    "take @store out, or let another group write the table",
                    member.group_span,
                )


def _random(group: ExecutionGroup) -> Iterator[Finding]:
    for member in group.members:
        for part in parts_of(member.element):
            if isinstance(part, model.Call) and (part.namespace, part.name.casefold()) == ("", "uuid"):
                yield STATE_RANDOM.broken(
                    f"{member.name} calls UUID(), which returns a different value in each instance of {group.name}",
                    "call it in a query of another group",
                    part.syntax.span if part.syntax is not None else member.group_span,
                )


def _state(group: ExecutionGroup) -> AnnotationValue:
    states = (member.distribution.state for member in group.members)
    return next(state for state in states if state is not None) if group.members else AnnotationValue("", ast.NOWHERE)
