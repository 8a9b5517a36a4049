"""Writes conf/monitoring/grafana-dashboard.json: `python tools/write_dashboard.py`. A test keeps the two in step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parent.parent / "conf" / "monitoring" / "grafana-dashboard.json"
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
COLUMNS = 24
PLAN = 'tenant=~"$tenant", plan=~"$plan"'
IN, OUT = f'kind="receiver", {PLAN}', f'kind="publisher", {PLAN}'
RATE = "[$__rate_interval]"
LATENCIES = f"sum by (tenant, plan, le) (rate(cep_receiver_latency_seconds_bucket{{{PLAN}}}{RATE}))"

Panel = tuple[str, str, str, tuple[tuple[str, str], ...]]
"""Kind (`stat` or `timeseries`), title, unit, and (expression, legend) for each line."""

ROWS: tuple[tuple[str, int, tuple[Panel, ...]], ...] = (
    (
        "Overview",
        4,
        (
            ("stat", "Plans", "none", (("max(cep_plans)", ""),)),
            ("stat", "Plans not running", "none", (('sum(cep_plan_state{state!~"active|inactive"})', ""),)),
            (
                "stat",
                "Events in",
                "cps",
                ((f'sum(rate(cep_component_received_events_total{{kind="receiver"}}{RATE}))', ""),),
            ),
            (
                "stat",
                "Events out",
                "cps",
                ((f'sum(rate(cep_component_emitted_events_total{{kind="publisher"}}{RATE}))', ""),),
            ),
            ("stat", "Slots free", "none", (("max(cep_slots_free)", ""),)),
            ("stat", "Workers", "none", (("count(cep_worker_heartbeat_age_seconds < 5) or vector(0)", ""),)),
        ),
    ),
    (
        "Plans",
        8,
        (
            (
                "timeseries",
                "Events in by plan",
                "cps",
                (
                    (
                        f"sum by (tenant, plan) (rate(cep_component_received_events_total{{{IN}}}{RATE}))",
                        "{{plan}}[{{tenant}}]",
                    ),
                ),
            ),
            (
                "timeseries",
                "Events out by plan",
                "cps",
                (
                    (
                        f"sum by (tenant, plan) (rate(cep_component_emitted_events_total{{{OUT}}}{RATE}))",
                        "{{plan}}[{{tenant}}]",
                    ),
                ),
            ),
            (
                "timeseries",
                "Latency",
                "s",
                tuple(
                    (
                        f"histogram_quantile({share}, {LATENCIES})",
                        f"{{{{plan}}}} {name}",
                    )
                    for share, name in ((0.5, "p50"), (0.99, "p99"))
                ),
            ),
            (
                "timeseries",
                "State of plans",
                "none",
                ((f"cep_plan_state{{{PLAN}}} == 1", "{{plan}}[{{tenant}}] {{state}}"),),
            ),
            ("timeseries", "Restarts", "none", ((f"cep_plan_restarts_total{{{PLAN}}}", "{{plan}}[{{tenant}}]"),)),
            (
                "timeseries",
                "Connections missing",
                "none",
                (
                    (
                        f"cep_plan_inflow_connections_required{{{PLAN}}} - cep_plan_inflow_connections{{{PLAN}}}",
                        "{{plan}} in",
                    ),
                    (
                        f"cep_plan_outflow_connections_required{{{PLAN}}} - cep_plan_outflow_connections{{{PLAN}}}",
                        "{{plan}} out",
                    ),
                ),
            ),
        ),
    ),
    (
        "Stages",
        8,
        (
            (
                "timeseries",
                "Events into stages, by stream",
                "cps",
                (
                    (
                        f"sum by (plan, component, stream) (rate(cep_component_received_events_total{{{PLAN}}}{RATE}))",
                        "{{plan}} {{component}} {{stream}}",
                    ),
                ),
            ),
            (
                "timeseries",
                "Share of time spent working",
                "percentunit",
                (
                    (
                        f"rate(cep_instance_busy_seconds_total{{{PLAN}}}{RATE})",
                        "{{plan}} {{stage_instance}}",
                    ),
                ),
            ),
            (
                "timeseries",
                "Events that wait",
                "none",
                ((f"cep_instance_queued_events{{{PLAN}}}", "{{plan}} {{stage_instance}}"),),
            ),
            (
                "timeseries",
                "State in memory",
                "bytes",
                ((f"cep_instance_state_bytes{{{PLAN}}}", "{{plan}} {{stage_instance}}"),),
            ),
            (
                "timeseries",
                "Errors and events dropped as too late",
                "cps",
                (
                    (f"rate(cep_instance_errors_total{{{PLAN}}}{RATE})", "{{plan}} {{stage_instance}} errors"),
                    (f"rate(cep_instance_dropped_events_total{{{PLAN}}}{RATE})", "{{plan}} {{stage_instance}} dropped"),
                ),
            ),
            (
                "timeseries",
                "Memory of tasks",
                "bytes",
                ((f"cep_task_memory_bytes{{{PLAN}}}", "{{plan}} task {{task}} on {{host}}"),),
            ),
        ),
    ),
    (
        "Workers",
        8,
        (
            ("timeseries", "Events accepted", "cps", ((f"rate(cep_accepted_events_total{RATE})", "{{instance}}"),)),
            (
                "timeseries",
                "Events that wait for topologies",
                "none",
                ((f"cep_inflow_waiting_events{{{PLAN}}}", "{{instance}} {{plan}} {{stream}}"),),
            ),
            (
                "timeseries",
                "Write-ahead log and prepared results",
                "bytes",
                (
                    (f"cep_wal_bytes{{{PLAN}}}", "{{instance}} {{plan}} {{stream}} log"),
                    (f"cep_prepared_results_bytes{{{PLAN}}}", "{{instance}} {{plan}} prepared results"),
                ),
            ),
            (
                "timeseries",
                "Sources and sinks that fail",
                "none",
                (
                    (f"cep_sources_failing{{{PLAN}}}", "{{instance}} {{plan}} {{type}} source"),
                    (f"cep_sinks_failing{{{PLAN}}}", "{{instance}} {{plan}} {{type}} sink"),
                ),
            ),
        ),
    ),
    (
        "Checkpoints",
        8,
        (
            (
                "timeseries",
                "Age of the newest",
                "s",
                ((f"time() - cep_plan_checkpoint_completed_timestamp_seconds{{{PLAN}}}", "{{plan}}[{{tenant}}]"),),
            ),
            (
                "timeseries",
                "Duration",
                "s",
                (
                    (f"cep_plan_checkpoint_duration_seconds{{{PLAN}}}", "{{plan}}"),
                    (f"cep_plan_checkpoint_alignment_seconds{{{PLAN}}}", "{{plan}} waiting for markers"),
                ),
            ),
            (
                "timeseries",
                "Size",
                "bytes",
                (
                    (f"cep_plan_checkpoint_size_bytes{{{PLAN}}}", "{{plan}}"),
                    (f"cep_plan_checkpoint_stored_bytes{{{PLAN}}}", "{{plan}} added to the store"),
                ),
            ),
            (
                "timeseries",
                "Failed",
                "none",
                ((f"increase(cep_plan_checkpoint_errors_total{{{PLAN}}}{RATE})", "{{plan}}[{{tenant}}]"),),
            ),
        ),
    ),
    (
        "Managers and driver",
        8,
        (
            ("timeseries", "Who leads", "none", (("cep_leader_up", "{{instance}}"),)),
            (
                "timeseries",
                "How long ago members were heard",
                "s",
                (
                    ("cep_driver_heartbeat_age_seconds", "driver {{driver}}"),
                    ("cep_worker_heartbeat_age_seconds", "worker {{worker}}"),
                ),
            ),
            (
                "timeseries",
                "Slots",
                "none",
                (("cep_driver_slots", "{{instance}}"), ("cep_driver_slots_free", "{{instance}} free")),
            ),
            (
                "timeseries",
                "Processor time",
                "percentunit",
                ((f'rate(process_cpu_seconds_total{{job=~"cep-.*"}}{RATE})', "{{job}} {{instance}}"),),
            ),
        ),
    ),
)


def dashboard() -> dict[str, Any]:
    """Return the dashboard as Grafana imports it."""
    panels: list[dict[str, Any]] = []
    top = 0
    for title, height, contents in ROWS:
        panels.append(
            {
                "id": len(panels) + 1,
                "type": "row",
                "title": title,
                "collapsed": False,
                "gridPos": {"h": 1, "w": COLUMNS, "x": 0, "y": top},
                "panels": [],
            }
        )
        top += 1
        width = COLUMNS // (len(contents) if contents[0][0] == "stat" else 2)
        for place, panel in enumerate(contents):
            x = place * width % COLUMNS
            panels.append(_panel(len(panels) + 1, panel, {"h": height, "w": width, "x": x, "y": top}))
            if x + width >= COLUMNS or place == len(contents) - 1:
                top += height
    return {
        "uid": "cep-on-spark",
        "title": "CEP on Spark",
        "tags": ["cep"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "refresh": "15s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "templating": {
            "list": [
                {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"},
                _variable("tenant", "Tenant", "label_values(cep_plan_state, tenant)"),
                _variable("plan", "Plan", 'label_values(cep_plan_state{tenant=~"$tenant"}, plan)'),
            ]
        },
        "annotations": {"list": []},
        "links": [],
        "panels": panels,
    }


def _panel(number: int, panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    kind, title, unit, lines = panel
    return {
        "id": number,
        "type": kind,
        "title": title,
        "datasource": SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}} if kind == "timeseries" else {},
        "targets": [
            {"refId": chr(ord("A") + index), "datasource": SOURCE, "expr": expression, "legendFormat": legend}
            for index, (expression, legend) in enumerate(lines)
        ],
    }


def _variable(name: str, label: str, query: str) -> dict[str, Any]:
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": SOURCE,
        "query": query,
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "sort": 1,
        "current": {"text": "All", "value": "$__all"},
    }


def text() -> str:
    """Return the file's content."""
    return json.dumps(dashboard(), indent=2) + "\n"


if __name__ == "__main__":
    TARGET.write_text(text(), encoding="utf-8")
