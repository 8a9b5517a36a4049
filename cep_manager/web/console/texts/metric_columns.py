"""The columns of tables on a plan's pages: what each is called, and what it means. Data alone."""

from __future__ import annotations

import msgspec


class Metric(msgspec.Struct, frozen=True):
    """A column: its head, what it means, whether it is a number."""

    label: str
    meaning: str
    number: bool = True


METRICS: dict[str, Metric] = {
    "stage": Metric(
        "Stage", "A part of the plan that runs as one: a receiver, an execution group, a publisher.", number=False
    ),
    "instances": Metric("Instances", "Instances that live, of those that the plan asks for."),
    "received": Metric("Received", "Events that came in during the window."),
    "emitted": Metric("Emitted", "Events that went out during the window, each counted once."),
    "transferred": Metric("Transferred", "Events handed on: one that two stages take counts twice."),
    "rate_in": Metric("In", "Events per second that came in, averaged over the window."),
    "rate_out": Metric("Out", "Events per second that went out, averaged over the window."),
    "capacity": Metric(
        "Capacity",
        "Share of the last 10 minutes that the busiest instance spent working, 0 to 1. Near 1 it can do no more: give "
        "the stage more instances, or the plan more workers.",
    ),
    "execute": Metric("Execute latency", "Mean time that working on one event took."),
    "process": Metric(
        "Process latency", "Mean time from an event's arrival in the stage until it had gone on, waiting included."
    ),
    "complete": Metric(
        "Complete latency",
        "Mean time from an event's arrival in the topology until all that came of it had gone on, to a worker or into "
        "a state.",
    ),
    "p50": Metric("p50", "Half of all events were complete within this time."),
    "p95": Metric("p95", "95 of 100 events were complete within this time."),
    "p99": Metric("p99", "99 of 100 events were complete within this time."),
    "queue": Metric(
        "Queue", "Events that wait in the stage now: for the order of event time, or for a worker with room."
    ),
    "rows": Metric("State rows", "Rows that windows, patterns and tables of the stage hold now."),
    "bytes": Metric("State size", "Memory that this state takes, estimated."),
    "dropped": Metric(
        "Dropped", "Events that came too late for event time, and were dropped as the plan's policy says."
    ),
    "errors": Metric("Errors", "Errors during the window."),
    "error": Metric(
        "Last error", "The newest error, with its place and time; marked while less than 30 minutes old.", number=False
    ),
    "covered": Metric("Counted", "How much of the window statistics cover."),
    "window": Metric("Window", "The time that is counted; choose one to see all tables for it.", number=False),
}

STAGE_TABLES = (
    (
        "Receivers",
        ("receiver", "trigger"),
        ("stage", "instances", "received", "emitted", "transferred", "rate_in", "rate_out", "complete",
         "p50", "p99", "errors", "error"),
    ),
    (
        "Processors",
        ("processor",),
        ("stage", "instances", "received", "emitted", "transferred", "rate_in", "rate_out", "capacity", "execute",
         "process", "queue", "rows", "bytes", "dropped", "errors", "error"),
    ),
    (
        "Publishers",
        ("publisher",),
        ("stage", "instances", "received", "emitted", "rate_in", "rate_out", "capacity", "execute", "process", "queue",
         "errors", "error"),
    ),
)  # fmt: skip
"""The tables of stages: title, kinds, columns."""

COMPONENT_COLUMNS = {
    "receiver": ("received", "emitted", "transferred", "rate_in", "rate_out", "complete", "p50", "p95",
                 "p99", "errors"),
    "trigger": ("emitted", "transferred", "rate_out", "errors"),
    "processor": ("received", "emitted", "transferred", "rate_in", "rate_out", "capacity", "execute", "process",
                  "dropped", "errors"),
    "publisher": ("received", "emitted", "rate_in", "rate_out", "capacity", "execute", "process", "errors"),
}  # fmt: skip
"""By the kind of a stage, what its page tells of windows and instances."""
