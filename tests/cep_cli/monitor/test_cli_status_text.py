"""The status of plans in words."""

from __future__ import annotations

from typing import Any

from cep_cli.monitor.status_text import plan_line, plan_status


def plan(**changes: Any) -> dict[str, Any]:
    topology = {
        "state": "active",
        "reason": "",
        "restarts": 0,
        "interruption": "",
        "interrupted_ms": 0,
        "intake": True,
        "change": "",
        "change_error": "",
        "state_left": [],
        "waits_for": [],
        "awaited": [],
        "late": [],
        "undeploying": "",
        "trace": False,
        "last_error": "",
    } | changes.pop("topology", {})
    status = {
        "topology": topology,
        "inflow": [{"worker": "worker-1", "established": 2, "required": 2}],
        "outflow": {"connected": 1, "required": 1},
        "connected": True,
        "lost_workers": [],
        "state": [],
        "tasks": [],
        "degraded": [],
    }
    return {"plan": "P", "topology": "P[-1234]", "epoch": 3, "status": status | changes}


def test_a_plan_that_runs_is_told_in_three_parts() -> None:
    assert plan_status(plan()).splitlines() == [
        "P[-1234], epoch 3",
        "Topology : ACTIVE",
        "Inflow connections :",
        "\tworker-1 : all established",
        "Outflow connections : all established",
    ]


def test_what_is_missing_is_counted_and_what_went_wrong_is_said() -> None:
    text = plan_status(
        plan(
            topology={
                "state": "restarting",
                "reason": "a stage process died",
                "restarts": 2,
                "last_error": "late#0: x",
            },
            inflow=[{"worker": "worker-1", "established": 1, "required": 2}],
            outflow={"connected": 0, "required": 2},
            connected=False,
        )
    )

    assert text.splitlines() == [
        "P[-1234], epoch 3",
        "Topology : RESTARTING",
        "\ta stage process died",
        "\trestarts: 2",
        "\tlast error: late#0: x",
        "Inflow connections :",
        "\tworker-1 : 1/2 established",
        "Outflow connections : 0/2 established",
    ]


def test_a_sink_that_fails_is_told_with_its_error_and_what_waits() -> None:
    part = {
        "worker": "worker-1", "kind": "sink", "type": "http", "stream": "Out", "error": "status 503", "since_ms": 0,
        "waiting_events": 1_234,
    }  # fmt: skip
    told = plan(topology={"state": "degraded", "reason": "http sink of Out at worker-1: status 503"}, degraded=[part])
    assert plan_status(told).splitlines()[1:3] == [
        "Topology : DEGRADED",
        "\thttp sink of Out at worker-1 fails: status 503; 1,234 events wait",
    ]
    assert "degraded, all connected (http sink of Out at worker-1: status 503)" in plan_line(told)
    dated = plan_status(plan(topology={"state": "degraded"}, degraded=[part | {"since_ms": 1_795_000_000_000}]))
    assert "fails since 2026-11-1" in dated


def test_a_line_names_the_state_and_its_reason() -> None:
    waiting = plan(topology={"state": "waiting", "reason": "no driver"}, connected=False)

    assert plan_line(waiting).split(maxsplit=1) == ["P[-1234]", "waiting, not all connected (no driver)"]
    assert plan_line(plan()).split(maxsplit=1) == ["P[-1234]", "active, all connected"]


def test_every_task_is_told_with_its_place_and_what_runs_in_it() -> None:
    task = {
        "task": 1, "host": "node-2", "process_id": 42, "live": False, "instances": ["late#1", "EventPublisher#0"],
        "memory_bytes": 250_000_000, "cpu_ms": 61_240,
    }  # fmt: skip
    assert plan_status(plan(tasks=[task])).splitlines()[-2:] == [
        "Tasks :",
        "\t1 on node-2 (process 42, silent; 250.0 MB, 61.2 s of processor time) : late#1, EventPublisher#0",
    ]


def test_what_an_edited_plan_could_not_take_over_is_told() -> None:
    left = "total#0: query total: its definition changed"
    assert plan_status(plan(topology={"state_left": [left]})).splitlines()[2] == f"\tstate was reset: {left}"


def test_a_change_that_came_to_nothing_is_told_with_its_reason() -> None:
    assert plan_status(plan(topology={"change_error": "it needs 5 slots"})).splitlines()[1:3] == [
        "Topology : ACTIVE",
        "\tthe last change failed: it needs 5 slots",
    ]


def test_a_plan_that_was_deactivated_while_it_waits_says_so() -> None:
    waiting = plan(topology={"state": "waiting", "reason": "no driver", "intake": False})

    assert plan_status(waiting).splitlines()[1:4] == [
        "Topology : WAITING",
        "\tno driver",
        "\tdeactivated: it accepts no events when it runs",
    ]


def test_a_lost_worker_is_named_where_the_connections_are_missing() -> None:
    lost = plan(
        inflow=[], connected=False, lost_workers=[{"worker": "worker-1", "host": "127.0.0.1", "silent_ms": 4_200}]
    )

    assert plan_status(lost).splitlines()[2:4] == [
        "Inflow connections : no worker has reported",
        "\tlost: worker-1 on 127.0.0.1, not heard for 4 s",
    ]


def test_what_interrupted_a_plan_that_runs_again_is_remembered() -> None:
    back = plan(topology={"restarts": 1, "interruption": "a stage process died", "interrupted_ms": 9_000})

    assert plan_status(back).splitlines()[1:4] == [
        "Topology : ACTIVE",
        "\tinterrupted 9 s ago: a stage process died",
        "\trestarts: 1",
    ]


def test_state_is_told_by_part_with_what_it_is_made_of() -> None:
    nothing = dict.fromkeys(
        ("rows", "groups", "partial_matches", "dropped_partial_matches", "distinct_values", "instances"), 0
    )
    query = nothing | {"kind": "query", "name": "q", "rows": 12_000, "groups": 3, "bytes": 2_345_678}
    strings = nothing | {"kind": "strings", "name": "all", "rows": 310, "bytes": 45_184}
    assert plan_status(plan(state=[query, strings])).splitlines()[-3:] == [
        "State :",
        "\tquery q : 12,000 rows, 3 groups, 2.3 MB",
        "\tstrings : 310, 45.2 kB",
    ]
