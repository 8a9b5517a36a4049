"""A world in which things go wrong: failed checkpoints, errors of stages, sinks in trouble, a full log."""

from __future__ import annotations

import msgspec
from manager_world import KEY, World, driver, receiver, serves, task, topology, worker

from cep_common.protocol.drivers import CheckpointReport, CheckpointSettings, RegisterDriver, SavepointReport
from cep_common.protocol.error_records import ErrorRecord
from cep_common.protocol.tasks import RegisterTask
from cep_common.protocol.worker_reports import (
    ConnectorReport,
    ListenerReport,
    PartitionReport,
    PreparedResultsReport,
    PublisherReport,
    TransactionReport,
    WalReport,
    WrittenTopicReport,
)

NOW_MS = 1_767_225_665_000
HOSTILE = "<script>alert(1)</script><b>'\"&"
TRACEBACK = "Traceback (most recent call last):\n  File \"processor.py\", line 104, in on_bundle\nValueError: 'n/a'"
CHECKPOINTS = (
    CheckpointReport(11, "complete", NOW_MS - 50_000, 200, 5_000_000, 300_000, 4, tasks=2, acknowledged=2),
    CheckpointReport(12, "failed", NOW_MS - 40_000, 900, error=f"task 1: {HOSTILE}", tasks=2, acknowledged=1),
    CheckpointReport(
        13, "complete", NOW_MS - 30_000, 400, 6_000_000, 100_000, 8, "before", trigger="savepoint", tasks=2,
        acknowledged=2,
    ),
    CheckpointReport(14, "abandoned", NOW_MS - 20_000, 60_000, error="missing: 1", tasks=2, acknowledged=1),
    CheckpointReport(15, "taking", NOW_MS - 1_000, tasks=2),
)  # fmt: skip
SAVEPOINTS = (
    SavepointReport(KEY, "before", "stored", 13, NOW_MS - 30_000, 6_000_000),
    SavepointReport(KEY, "full", "failed", error="the store is full"),
)
SETTINGS = CheckpointSettings("s3://bucket/checkpoints", 10_000, 500, 60_000, 3)
FAILURE = ErrorRecord(
    "ValueError", f"no number: {HOSTILE}", NOW_MS - 600_000, NOW_MS - 300_000, 3, "storms#0", TRACEBACK, "10.0.0.2", 200
)
DROPPED = ErrorRecord("events-dropped", "query lateness: division by zero", NOW_MS - 60_000, NOW_MS, 1_204_117)
SINK = ErrorRecord("sink", "answered 503", NOW_MS - 9_000, NOW_MS - 1_000, 14, "sink http of KnockOns")


def ailing_driver() -> RegisterDriver:
    """Its report of the plan's topology, with all that went wrong."""
    running = msgspec.structs.replace(
        topology("running", restarts=4), checkpoints=CHECKPOINTS, begun_from=9, failures=(FAILURE,)
    )
    return msgspec.structs.replace(driver(running), savepoints=SAVEPOINTS, checkpointing=SETTINGS)


def ailing_task() -> RegisterTask:
    """The plan's task, one of whose instances drops events."""
    seen = task(events=12_000, attempt=4)
    components = tuple(
        msgspec.structs.replace(one, failures=(DROPPED,), errors=DROPPED.count) if one.instance == "lateness#0" else one
        for one in seen.components
    )
    return msgspec.structs.replace(seen, components=components)


def ailing_world() -> World:
    """The plan runs, is connected, and suffers."""
    world = World()
    world.active(events=12_000)
    world.hear(ailing_driver(), peer=b"driver")
    world.hear(ailing_task(), receiver(attempt=4))
    for turn in range(3):
        report = serves(events=12_000 + 1_000 * turn)
        report = msgspec.structs.replace(
            report,
            inflow=tuple(
                msgspec.structs.replace(one, in_flight_rows=16_384, window_rows=65_536) for one in report.inflow
            ),
            links=(PublisherReport("EventPublisher#0", 1_200, 65_536, waits=True),),
            write_ahead_logs=(
                WalReport("Arrivals", 1_048_576, 4_294_967_296, 2, 9_200),
                WalReport("Departures", 4_294_967_296, 4_294_967_296, 256, 41_000, 7, "wal.maximum_bytes", 65_536),
            ),
            prepared=PreparedResultsReport(420, 96_000, 4_100, lost_events=3, damaged_file_bytes=2_048),
            errors=(SINK,),
        )
        beat = msgspec.structs.replace(
            worker(report, revision=world.snapshot().revision),
            up_ms=3 * 86_400_000,
            memory_bytes=200_000_000,
            cpu_ms=turn * 250,
            fsync="interval",
            connectors=(
                ConnectorReport("source", "http", KEY.tenant, KEY.plan, "Departures"),
                ConnectorReport(
                    "source",
                    "kafka",
                    KEY.tenant,
                    KEY.plan,
                    "Arrivals",
                    partitions=(
                        PartitionReport("arrivals", 1, 12_040, 12_038, 15_040),
                        PartitionReport("arrivals", 0, 7),
                    ),
                ),
                ConnectorReport(
                    "sink", "http", KEY.tenant, KEY.plan, "KnockOns", f"answered 503 {HOSTILE}", 310, 1_400
                ),
                ConnectorReport(
                    "sink",
                    "kafka",
                    KEY.tenant,
                    KEY.plan,
                    "KnockOns",
                    written=(WrittenTopicReport("alerts", 1_204),),
                    transactions=TransactionReport(31, 2, 33),
                ),
            ),
            listeners=(ListenerReport(KEY.tenant, "KnockOns:1.0.0", 12, 4_000, 35),),
        )
        world.hear(beat, task(events=12_000, attempt=4))
        world.now_ms += 1_000
    world.hear(ailing_driver(), peer=b"driver")
    world.hear(ailing_task(), beat)
    return world
