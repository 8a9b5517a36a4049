"""Scheduling priority, so that other load on a host does not delay heartbeats.

The threads that send and check heartbeats do little, but must do it in time. Like those of cluster managers such as
Corosync, they run in the kernel's real-time class, at its lowest priority. A Python thread also waits for the thread
that holds the interpreter lock, which in turn waits for a processor, so the processes get a larger share of the
processors, too. Both need root or CAP_SYS_NICE. Without these nothing changes, and leases that adapt to measured delays
(`cep_common.lease`) prevent false alarms.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Literal

logger = logging.getLogger(__name__)

ControlPriority = Literal["realtime", "normal"]
"""The configuration's `priority`."""

LOWEST_REALTIME = 1
NICE = -10
"""About nine times the share of a process with the usual nice value of 0."""
AUTOGROUP = Path("/proc/self/autogroup")
"""If the kernel groups processes by session (sched(7)), nice values only apply within a group.

This file sets the nice value of the group.
"""


def raise_priority(wanted: ControlPriority) -> bool:
    """Move the calling thread to the real-time class if `wanted` says so and the kernel permits it.

    Threads and processes that it starts keep the normal class.

    Returns:
        Whether the thread is in the real-time class now.
    """
    if wanted == "normal":
        return False
    try:
        policy = os.SCHED_RR | os.SCHED_RESET_ON_FORK
        os.sched_setscheduler(0, policy, os.sched_param(LOWEST_REALTIME))
    except (OSError, AttributeError) as error:  # not permitted, or another system than Linux
        logger.debug("heartbeats keep the normal priority: %s", error)
        return False
    return True


def raise_process_priority(wanted: ControlPriority) -> bool:
    """Give this process, and those it will start, a larger share of the processors, if `wanted` and permitted.

    Returns:
        Whether the process has the larger share now.
    """
    if wanted == "normal":
        return False
    try:
        os.setpriority(os.PRIO_PROCESS, 0, NICE)
        if AUTOGROUP.exists():
            AUTOGROUP.write_text(str(NICE), encoding="ascii")
    except OSError as error:  # not permitted
        logger.debug("the process keeps the normal priority: %s", error)
        return False
    return True
