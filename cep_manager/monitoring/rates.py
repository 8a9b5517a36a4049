"""Events per second, from counters that members report. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TypeVar

from cep_common.protocol.drivers import RegisterDriver
from cep_common.protocol.registry import RegisterWorker
from cep_common.protocol.tasks import RegisterTask
from cep_manager.control.members import ClusterMember

Report = TypeVar("Report", bound=RegisterTask | RegisterWorker | RegisterDriver)


def per_second(member: ClusterMember[Report], counter: Callable[[Report], int | None]) -> float:
    """Return the growth of `counter` per second over the member's last reports, to three places.

    0.0 while fewer than two reports have it (None: a report has not). A counter that fell was restarted, or counts
    something that is sent again: its growth between these two reports is unknown, and only the others count.
    """
    counted = [(timed.at_ms, counter(timed.report)) for timed in member.earlier]
    counted.append((member.heard_ms, counter(member.latest)))
    reports = [(at_ms, value) for at_ms, value in counted if value is not None]
    growth = sum(max(0, after - before) for (_, before), (_, after) in itertools.pairwise(reports))
    if len(reports) < 2:
        return 0.0
    elapsed_ms = reports[-1][0] - reports[0][0]
    return round(growth * 1_000 / elapsed_ms, 3) if elapsed_ms > 0 else 0.0
