"""Restrict a process that runs code of plans: end it with its parent, and drop the rights of root.

Both are specific to Linux. A change of user cancels the end with the parent, so call `leave_root` first.
"""

from __future__ import annotations

import ctypes
import os
import signal
from pathlib import Path

PR_SET_PDEATHSIG = 1
"""The option of prctl(2) for the signal that a process gets when the thread that started it ends."""
UNPRIVILEGED = 65_534
"""The id of the user and group `nobody`."""
_NEEDED = 1 << 5 | 1 << 6 | 1 << 7
"""CAP_KILL, CAP_SETGID and CAP_SETUID: without the first, a parent that is root could not end such a process."""


def end_with_parent(number: int = signal.SIGKILL) -> None:
    """Have the kernel signal this process when its parent ends, even if this process is stopped.

    Parent means the thread that started the process (see `cep_common.process.child_processes.start`). There is no
    signal if the parent has already ended.
    """
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number)


def leave_root() -> bool:
    """Switch to the user `nobody` if this is root, whose number of processes is unlimited.

    Return whether this is not root. Files and modules of root are unreadable afterwards. The process remains root if it
    may not change its user, as in some containers, or if its parent could not end it then.
    """
    if os.geteuid():
        return True
    if _capabilities() & _NEEDED != _NEEDED:
        return False
    try:
        os.setgroups([])
        os.setresgid(UNPRIVILEGED, UNPRIVILEGED, UNPRIVILEGED)
        os.setresuid(UNPRIVILEGED, UNPRIVILEGED, UNPRIVILEGED)
    except OSError:  # a name space of users without this one
        return False
    return True


def _capabilities() -> int:
    for line in Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith("CapEff:"):
            return int(line.split()[1], 16)
    return 0
