"""Rules about streams that Kafka carries between execution groups (`@App:transport('kafka')`)."""

from __future__ import annotations

from collections.abc import Iterator

from query_plan.findings import Finding, error_rule, warning_rule
from query_plan.planning.carried_streams import LONGEST_TOPIC, direct_streams
from query_plan.planning.survey import Survey
from siddhi.language import ast

STAYS_DIRECT = warning_rule(
    "stream-stays-direct",
    "the plan's transport is Kafka, but a stream connects groups directly: a group reads a stream that it and "
    "others write, or the plan has "
    "both a source and a sink for it",
    "write to streams of different names to use a topic for each",
)
TOPIC_TOO_LONG = error_rule(
    "topic-name-too-long",
    "the topic of a stream would have a longer name than Kafka allows",
    "shorten the names of the plan and its streams",
)
TOPIC_SHARED = error_rule(
    "topic-name-shared",
    "two streams that Kafka carries would have the same topic",
    "rename one of the streams",
)


def streams_between_groups_use_topics(plan: Survey) -> Iterator[Finding]:
    """Warn about streams between groups that cannot use a topic."""
    known = {one.stream for one in plan.carried}
    for name in direct_streams(plan.header, plan.groups, plan.bindings, known):
        yield STAYS_DIRECT.broken(
            f"{name} connects groups directly, without a topic: events of a source or another group could not "
            "be distinguished from events "
            "that return from the topic",
            "write to streams of different names to use a topic for each",
            _span(plan, name),
        )


def topics_can_have_their_names(plan: Survey) -> Iterator[Finding]:
    """Check that each topic name is valid in Kafka."""
    for one in plan.carried:
        if len(one.topic) > LONGEST_TOPIC:
            message = f"the topic of {one.stream} would have {len(one.topic)} characters, Kafka allows {LONGEST_TOPIC}"
            hint = "shorten the name of the plan or of the stream"
            yield TOPIC_TOO_LONG.broken(message, hint, _span(plan, one.stream))


def topics_carry_one_stream(plan: Survey) -> Iterator[Finding]:
    """Check that no two streams share a topic, such as `A` with the key `b` and a quoted `A.b`."""
    taken: dict[str, str] = {}
    for one in plan.carried:
        other = taken.setdefault(one.topic, one.stream)
        if other != one.stream:
            message = f"{one.stream} and {other} would have the same topic, {one.topic}"
            yield TOPIC_SHARED.broken(message, "rename one of them", _span(plan, one.stream))


def _span(plan: Survey, stream: str) -> ast.Span | None:
    syntax = plan.app.streams[stream].syntax
    return syntax.span if syntax else None
