"""The permission that each call of a worker's HTTP interface requires.

A test keeps this complete.
"""

from __future__ import annotations

from cep_common.security.access import Permission
from cep_common.web.health import HEALTH_CALLS

CALLS: dict[str, Permission] = {
    **HEALTH_CALLS,
    "get_health": Permission.OPEN,
    "get_metrics": Permission.SEE_SYSTEM,
    "get_streams": Permission.SEE,
    "get_stream": Permission.SEE,
    "get_errors": Permission.OPERATE,
    "replay_errors": Permission.OPERATE,
    "discard_errors": Permission.OPERATE,
    "get_wal": Permission.OPERATE,
    "restore_wal": Permission.OPERATE,
    "discard_wal": Permission.OPERATE,
    "post_events": Permission.SEND,
    "post_source": Permission.SEND,
}
