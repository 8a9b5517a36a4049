"""The names of metrics in the tables, which are those of WSO2's stream processors. Pure."""

from __future__ import annotations

import zlib

from cep_common.ids import PlanKey
from cep_manager.monitoring.metric_tables.tables import LONGEST_NAME

PREFIX = "org.wso2.siddhi.SiddhiApps"

KINDS = {"query": "Queries", "window": "Windows", "table": "Tables", "aggregation": "Aggregations"}
"""Parts of a plan that hold state, by the kind that reports have for them."""


def source_of(key: PlanKey) -> str:
    """Return the source of a plan's rows, which stays the same when the plan is renamed."""
    return PlanKey(key.tenant, key.identity).topology()


def of_plan(key: PlanKey, what: str) -> str:
    """Return the name of a metric of a whole plan."""
    return f"{PREFIX}.{key.identity}.{what}"


def of_part(key: PlanKey, kind: str, name: str, what: str) -> str:
    """Return the name of a metric of a stream, query, table or stage of a plan."""
    full = f"{PREFIX}.{key.identity}.Siddhi.{kind}.{name}.{what}"
    if len(full) <= LONGEST_NAME:
        return full
    mark = f"~{zlib.crc32(full.encode()):08x}"
    return full[: LONGEST_NAME - len(mark)] + mark
