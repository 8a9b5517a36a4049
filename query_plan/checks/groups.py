"""Rules about execution groups: names, shared state and cycles."""

from __future__ import annotations

from collections.abc import Iterator

from query_plan.annotations import MOST_INSTANCES, positive, source_parallel, written_name
from query_plan.components.elements import queries_of, syntax_of
from query_plan.findings import Finding, error_rule, warning_rule
from query_plan.model import PUBLISHER_NAME, RECEIVER_NAME
from query_plan.planning.groupings import grouping_of, obstacles
from query_plan.planning.groups import ExecutionGroup, loops
from query_plan.planning.survey import Survey
from siddhi.analysis import model
from siddhi.errors import did_you_mean
from siddhi.language import ast

RESERVED_NAME = error_rule(
    "reserved-name", "a group or trigger is called `EventReceiver` or `EventPublisher`", "choose another name"
)
DUPLICATE_NAME = error_rule(
    "duplicate-name",
    "two queries, partitions, groups or triggers have the same name",
    "choose another name; to run both in one stage give them the same `execGroup`",
)
PARALLEL_DIFFERS = error_rule(
    "parallel-differs-in-group",
    "members of one `execGroup` have different `parallel`",
    "write the same number on each of them",
)
KEY_WITHOUT_STREAM = warning_rule(
    "partition-key-unknown-stream",
    "a partition of an execution plan gives a key to a stream that is not defined; the key has no effect",
    "take the key out, or define the stream",
)
OBJECT_KEY = error_rule(
    "partition-key-object",
    "the key of a partition is an object, which cannot be used as a key",
    "partition by an attribute of another type",
)
SHARED_STATE = error_rule(
    "state-shared-between-groups",
    "a table, named window or aggregation of one group is used by another",
    "give all that use it the same `execGroup`, or send the other group a stream",
)
SHARED_PRIVATE = error_rule(
    "private-stream-across-groups",
    "`!S` is read in another group than `S`, or `#S` (outside a partition) is used by two groups",
    "give all that use it the same `execGroup`",
)
LOOP = error_rule(
    "loop-across-groups",
    "groups form a cycle: each feeds the next",
    "put the cycle into one `execGroup`, or write to another stream",
)
HANDED_ON = error_rule(
    "stream-received-and-produced",
    "a group imports a stream and also writes it, and other groups read what it writes",
    "write to a stream with another name, and read both",
)
FEW_LABELS = warning_rule(
    "more-instances-than-labels",
    "a parallel partition by ranges has more instances than labels",
    "lower `parallel`, or make more ranges",
)
TOO_MANY_INSTANCES = error_rule(
    "too-many-instances",
    "the plan has more than 1024 component instances in all",
    "lower `parallel`, give queries the same `execGroup`, or split the plan",
)
TRIGGER_UNREAD = warning_rule("trigger-unread", "no query reads a trigger", "take its definition out")
TRIGGER_CLOCK = warning_rule(
    "trigger-by-system-clock",
    "event time drives the plan, but its triggers fire by the system clock",
    "use a time window, which follows the events, if results must not depend on the speed of processing",
)
IDLE_WORKERS = warning_rule(
    "more-workers-than-instances",
    "the plan asks for more topology workers than it has component instances",
    "lower `workers`, or raise `parallel`",
)


def names_are_not_reserved(plan: Survey) -> Iterator[Finding]:
    """Check that no group has the name of a stage that every plan has."""
    named = [(group.name, _group_span(group)) for group in plan.groups if group.members]
    named += [(name, definition.span) for name, definition in plan.app.triggers.items()]
    for name, span in named:
        if name in (RECEIVER_NAME, PUBLISHER_NAME):
            message = f"{name} is the name of a stage that every plan has"
            yield RESERVED_NAME.broken(message, "choose another name", span)


def element_names_are_unique(plan: Survey) -> Iterator[Finding]:
    """Report elements that share a name.

    CEP 4.0 merged such elements silently; here execGroup does that explicitly. As in Siddhi, names inside a partition
    only have to be unique in that partition.
    """
    seen: set[str] = set()
    for member in plan.members:
        if isinstance(member.element, model.AnalysedAggregation):
            continue
        if member.name in seen:
            yield _duplicate(member.name, member.element)
        seen.add(member.name)
        inside: set[str] = set()
        for query in queries_of(member.element) if member.inside else ():
            own = written_name(query.syntax.annotations)
            if own is not None and own.text in inside:
                yield _duplicate(own.text, query)
            inside |= {own.text} if own is not None else set()


def _duplicate(name: str, element: model.AnalysedQuery | model.AnalysedPartition) -> Finding:
    return DUPLICATE_NAME.broken(
        f"{name} is already the name of another query or partition",
        "choose another name; to run both in one stage give them the same execGroup",
        _name_span(element),
    )


def stage_names_are_unique(plan: Survey) -> Iterator[Finding]:
    """Report stages that share a name: groups named by a query, groups named by execGroup, and triggers."""
    by_exec_group = {member.group for member in plan.members if member.group is not None}
    for group in plan.groups:
        if group.members and group.name in by_exec_group and all(member.group is None for member in group.members):
            yield DUPLICATE_NAME.broken(
                f"{group.name} is already the name of an execution group",
                f"choose another name, or write @dist(execGroup='{group.name}') to join the group",
                _group_span(group),
            )
    names = {group.name for group in plan.groups}
    for name, trigger in plan.app.triggers.items():
        if name in names:
            message = f"the trigger {name} has the name of an execution group"
            yield DUPLICATE_NAME.broken(message, "choose another name for one of them", trigger.span)


def groups_agree_on_parallel(plan: Survey) -> Iterator[Finding]:
    """Check that all members of a group can run in every one of its instances."""
    for group in plan.groups:
        named = [member for member in group.members if member.group is not None]
        for member in named[1:]:
            if member.distribution.bounds != named[0].distribution.bounds:
                yield PARALLEL_DIFFERS.broken(
                    f"{member.name} has {member.parallel_text}, but {named[0].name} of the same group"
                    f" {group.name} has {named[0].parallel_text}",
                    f"write {named[0].distribution.written} on both, or give them different execGroups",
                    member.parallel_span,
                )
        if group.members:
            yield from _brought_together(group)


def _brought_together(group: ExecutionGroup) -> Iterator[Finding]:
    """Report members without execGroup that ask for several instances but must run with another member."""
    most = max(group.members, key=lambda member: member.most)
    for member in group.members:
        if group.shares_state and isinstance(member.element, model.AnalysedAggregation):
            continue  # which cannot be annotated, and is in every instance
        if member.distribution.bounds != most.distribution.bounds and None in (member.group, most.group):
            yield PARALLEL_DIFFERS.broken(
                f"{most.name} has {most.parallel_text}, but must run together with {member.name}, which has"
                f" {member.parallel_text}: they share state, or feed each other in a cycle",
                f"take parallel out, or write {most.distribution.written} on both",
                most.parallel_span,
            )
            return


def parallel_groups_can_be_parallel(plan: Survey) -> Iterator[Finding]:
    """Check that groups with several instances keep no state over all events."""
    for group in plan.groups:
        if group.shares_state:
            continue  # every instance has the whole state
        if any(member.most > 1 for member in group.members) and not any(_brought_together(group)):
            yield from obstacles(plan, group)


def partition_keys_are_not_objects(plan: Survey) -> Iterator[Finding]:
    """Check that no partition key is an object: instances and hosts could disagree about which keys are equal."""
    for element in plan.app.elements:
        if isinstance(element, model.AnalysedPartition):
            for key, syntax in zip(element.keys, syntax_of(element).keys, strict=True):
                if key.expression is not None and key.expression.type is ast.AttributeType.OBJECT:
                    yield OBJECT_KEY.broken(
                        f"{element.name} is partitioned by an object of {key.stream}",
                        "partition by an attribute of another type, computed in a preceding query if necessary",
                        syntax.span,
                    )


def partition_key_streams_exist(plan: Survey) -> Iterator[Finding]:
    """Warn about partition keys of undefined streams; Siddhi 3 accepts these, but they are probably misspelt."""
    for written, element in zip(plan.app.syntax.elements, plan.app.elements, strict=True):
        if isinstance(written, ast.Partition) and isinstance(element, model.AnalysedPartition):
            kept = set(syntax_of(element).keys)
            for key in written.keys:
                if key not in kept:
                    yield KEY_WITHOUT_STREAM.broken(
                        f"the key of {key.stream} has no effect: there is no such stream",
                        did_you_mean(key.stream, plan.app.streams) or "take it out, or define the stream",
                        key.span,
                    )


def state_stays_in_one_group(plan: Survey) -> Iterator[Finding]:
    """Report state that several groups share.

    A table, named window or aggregation lives in one engine, and a private stream in one stage.
    """
    owners: dict[str, str] = {}
    for group in plan.groups:
        for member in group.members:
            for name in (*member.state, *member.private):
                owner = owners.setdefault(name, group.name)
                if owner == group.name:
                    continue
                private = name in member.private
                together = f"give all that use it the same execGroup ('{owner}')"
                yield (SHARED_PRIVATE if private else SHARED_STATE).broken(
                    f"{member.name} in group {group.name} uses the {'stream' if private else _kind(plan, name)} "
                    f"{name}, which belongs to group "
                    f"{owner}",
                    together if private else f"{together}, or let group {owner} send what {member.name} needs",
                    member.group_span,
                )


def groups_form_no_loop(plan: Survey) -> Iterator[Finding]:
    """Check that groups form no cycle: their stages would wait for each other."""
    if len({group.name for group in plan.groups}) < len(plan.groups):
        return
    for loop in loops(plan.groups):
        member = next(group for group in plan.groups if group.name == loop[-1]).members[0]
        yield LOOP.broken(
            f"the groups {', '.join(loop)} feed each other in a cycle",
            f"give their members the same execGroup, or let {loop[-1]} write to a stream that {loop[0]} does not read",
            member.group_span,
        )


def received_streams_are_not_handed_on(plan: Survey) -> Iterator[Finding]:
    """Report streams that a group both receives and writes: consumers could not distinguish the two."""
    for group in plan.groups:
        both = set(plan.inputs(group)) & set(plan.outputs(group))
        elements = (one.element for one in group.members if not isinstance(one.element, model.AnalysedAggregation))
        for query in (query for element in elements for query in queries_of(element)):
            name = query.output.target
            if query.output.kind is model.TargetKind.STREAM and name in both:
                both.discard(name)
                yield HANDED_ON.broken(
                    f"group {group.name} imports {name} and also writes it, and other groups read what it writes",
                    "let this query write to a stream with another name, and read both",
                    query.syntax.output.span,
                )


def ranges_keep_instances_busy(plan: Survey) -> Iterator[Finding]:
    """Warn about range partitions with fewer labels than instances; each label is processed by one instance."""
    for group in plan.groups:
        partitions = [grouping_of(group, stream).partition for stream in group.reads_of]
        ranges = [one for one in partitions if isinstance(one, ast.RangePartition)]
        labels = {label for one in ranges for _, label in one.ranges}
        if ranges and len(labels) < group.most:
            most = f"{'up to ' if group.scales else ''}{group.most}"
            yield FEW_LABELS.broken(
                f"group {group.name} has {most} instances for the {len(labels)} labels of its ranges",
                f"write {'max' if group.scales else 'parallel'}='{len(labels)}', or make more ranges",
                _parallel_span(group),
            )


def triggers_are_read(plan: Survey) -> Iterator[Finding]:
    """Yield a finding for each trigger that no query reads."""
    read = frozenset(name for group in plan.groups for name in group.streams_read)
    for name, trigger in plan.app.triggers.items():
        if name not in read:
            yield TRIGGER_UNREAD.broken(f"no query reads the trigger {name}", "take it out, or read it", trigger.span)


def triggers_follow_the_system_clock(plan: Survey) -> Iterator[Finding]:
    """Warn that triggers follow the system clock: in a replay they do not follow the time of the events."""
    for name, trigger in plan.app.triggers.items() if plan.app.playback else ():
        yield TRIGGER_CLOCK.broken(
            f"event time drives the plan, but the trigger {name} fires by the system clock",
            "if results must not depend on the speed of processing, use a time window instead",
            trigger.span,
        )


def workers_have_instances(plan: Survey) -> Iterator[Finding]:
    """Check that the plan has no more workers than instances; each worker takes a slot even without an instance."""
    header, instances = plan.header, _instances(plan)
    workers = positive(header.workers) or 1
    if workers > instances:
        yield IDLE_WORKERS.broken(
            f"the plan asks for {workers} topology workers, but has only {instances} component instances",
            f"write workers='{instances}' or less",
            header.workers.span if header.workers else None,
        )


def instances_can_be_placed(plan: Survey) -> Iterator[Finding]:
    """Check the total number of instances: the manager, the driver and the tasks keep an object for each."""
    instances = _instances(plan)
    if instances > MOST_INSTANCES:
        yield TOO_MANY_INSTANCES.broken(
            f"the plan has {instances:,} component instances; {MOST_INSTANCES:,} are the most that can be placed",
            "lower parallel, give queries the same execGroup, or split the plan",
            None,
        )


def _instances(plan: Survey) -> int:
    header = plan.header
    ends = (positive(header.receiver_parallel) or source_parallel(plan.app.syntax)) + (
        positive(header.publisher_parallel) or 1
    )
    groups = (2 * group.most + 1 if group.shares_state else group.most for group in plan.groups)
    return ends + sum(groups) + len(plan.app.triggers)


def _parallel_span(group: ExecutionGroup) -> ast.Span:
    written = (member.distribution.parallel for member in group.members)
    return next((one.span for one in written if one is not None), _group_span(group))


def _kind(plan: Survey, name: str) -> str:
    return "table" if name in plan.app.tables else "window" if name in plan.app.windows else "aggregation"


def _name_span(element: model.AnalysedQuery | model.AnalysedPartition) -> ast.Span:
    syntax = syntax_of(element)
    written = written_name(syntax.annotations)
    return written.span if written else syntax.span


def _group_span(group: ExecutionGroup) -> ast.Span:
    """Return the position of the group's name."""
    member = next((member for member in group.members if member.group is not None), group.members[0])
    if member.distribution.group is not None:
        return member.distribution.group.span
    return member.span if isinstance(member.element, model.AnalysedAggregation) else _name_span(member.element)
