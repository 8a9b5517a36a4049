"""Events per second, told from counters that members report. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TypeVar

from cep_common.driver_messages import RegisterDriver
from cep_common.messages import RegisterWorker
from cep_common.task_messages import RegisterTask
from cep_manager.members import Member

Report = TypeVar("Report", bound=RegisterTask | RegisterWorker | RegisterDriver)


def per_second(member: Member[Report], counter: Callable[[Report], int]) -> float:
    """How fast `counter` has grown over the member's last reports, per second, to three places;
    0.0 while there is only one.

    A counter that fell was begun anew; the growth is then counted from there.
    """
    reports = [(timed.at_ms, counter(timed.report)) for timed in member.earlier]
    reports.append((member.heard_ms, counter(member.latest)))
    growth = 0
    for (_, before), (_, after) in itertools.pairwise(reports):
        growth += after - before if after >= before else after
    elapsed_ms = reports[-1][0] - reports[0][0]
    return round(growth * 1_000 / elapsed_ms, 3) if elapsed_ms > 0 else 0.0
