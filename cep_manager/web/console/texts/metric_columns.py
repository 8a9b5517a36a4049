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
    "instances": Metric("Instances", "Running instances, of those that the plan requires."),
    "received": Metric("Received", "Events received in the window."),
    "emitted": Metric("Emitted", "Events emitted in the window, each counted once."),
    "transferred": Metric("Transferred", "Events transferred: an event that goes to two stages counts twice."),
    "rate_in": Metric("In", "Events received per second, averaged over the window."),
    "rate_out": Metric("Out", "Events emitted per second, averaged over the window."),
    "capacity": Metric(
        "Capacity",
        "Share of the last 10 minutes that the busiest instance spent working, 0 to 1. Near 1 it is at its limit: give "
        "the stage more instances, or the plan more workers.",
    ),
    "execute": Metric("Execute latency", "Mean time spent working on one event."),
    "process": Metric(
        "Process latency",
        "Mean time from an event's arrival in the stage until the stage had passed it on, including waiting.",
    ),
    "complete": Metric(
        "Complete latency",
        "Mean time from an event's arrival in the topology until all its results had reached a worker or were "
        "part of the state.",
    ),
    "p50": Metric("p50", "Half of all events were complete within this time."),
    "p95": Metric("p95", "95 of 100 events were complete within this time."),
    "p99": Metric("p99", "99 of 100 events were complete within this time."),
    "queue": Metric(
        "Queue", "Events waiting in the stage now: for event-time order, or for a worker that can take results."
    ),
    "rows": Metric("State rows", "Rows in windows, patterns and tables of the stage now."),
    "bytes": Metric("State size", "Estimated memory of this state."),
    "dropped": Metric("Dropped", "Events that were late in event time and were dropped by the plan's policy."),
    "errors": Metric("Errors", "Errors during the window."),
    "error": Metric(
        "Last error", "The newest error, with its place and time; marked while less than 30 minutes old.", number=False
    ),
    "covered": Metric("Counted", "Part of the window that statistics cover."),
    "window": Metric("Window", "Window of the counters; choose one to see all tables for it.", number=False),
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
"""Columns of the tables of windows and instances on a stage's page, by the kind of stage."""
