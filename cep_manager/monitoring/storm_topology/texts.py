"""Numbers, times and names as Storm writes them. Pure."""

from __future__ import annotations

import re
import zlib
from urllib.parse import quote, unquote

from cep_common.ids import PlanKey
from cep_manager.history.counter_history import WINDOWS_S
from cep_manager.monitoring.storm_topology.errors import StormRequestError

ALL_TIME = ":all-time"
LONGEST_ERROR = 200
_SAFE = "-_."
_MEGABYTE = 2**20


class StormWindow:
    """A window that was asked for: `written` as in the request; `seconds` is None for all time.

    One that is not kept (`known` is False) is answered, too, with zeros.
    """

    def __init__(self, written: str | None) -> None:
        """Raise StormRequestError for an invalid window."""
        self.written = written or ALL_TIME
        if self.written != ALL_TIME and not re.fullmatch(r"[0-9]{1,9}", self.written, re.ASCII):
            raise StormRequestError(f"window must be seconds or {ALL_TIME}, not {self.written[:40]!r}")
        self.seconds = None if self.written == ALL_TIME else int(self.written)
        self.known = self.seconds is None or self.seconds in WINDOWS_S

    @property
    def hint(self) -> str:
        """Return the window for display: `10m 0s`, `All time`."""
        return "All time" if self.seconds is None else uptime(self.seconds)


WINDOWS = tuple(StormWindow(written) for written in (*(str(seconds) for seconds in WINDOWS_S), ALL_TIME))
"""The windows of Storm's tables, in their order."""


def decimal(value: float | None) -> str:
    """Return a latency or a capacity: three places, `0` when there is none."""
    return "0" if value is None else f"{value:.3f}"


def percent(part: float, whole: float) -> str:
    """Return a share of 100, to one place."""
    return f"{100 * part / whole:.1f}" if whole else "0.0"


def uptime(seconds: int) -> str:
    """Return a length of time: `5s`, `6m 5s`, `3h 0m 0s`, `1d 0h 0m 0s`."""
    left = max(0, seconds)
    parts: list[str] = []
    for size, unit in ((60, "s"), (60, "m"), (24, "h")):
        left, rest = divmod(left, size)
        parts.append(f"{rest}{unit}")
        if not left:
            break
    else:
        parts.append(f"{left}d")
    return " ".join(reversed(parts))


def megabytes(size_bytes: int) -> float:
    """Return the size in megabytes, rounded to one decimal."""
    return round(size_bytes / _MEGABYTE, 1)


def shortened(error: str) -> str:
    """Return an error as tables show it."""
    return error[:LONGEST_ERROR]


def encoded(name: str) -> str:
    """Return a name that is allowed in an address."""
    return quote(name, safe="")


def topology_id(key: PlanKey, created_ms: int) -> str:
    """Return an id of the plan in Storm's form `<name>-<number>-<seconds>`, such as `KnockOnDelays-1234-1767225600`.

    It stays the same as long as the plan is deployed, and needs no encoding in an address. The number is the tenant's
    without its sign; numbers of tenants without a sign have a zero in front. The seconds are the time of deployment.
    """
    name = quote(key.plan, safe=_SAFE).replace("~", "%7E").replace("%", "~")
    tenant = str(-key.tenant) if key.tenant < 0 else f"0{key.tenant}"
    return f"{name}-{tenant}-{created_ms // 1_000}"


def plan_of(identifier: str) -> tuple[int, str] | None:
    """Return the tenant and the name of the plan with `identifier`, if there is one.

    None for identifiers that `topology_id` did not make.
    """
    found = re.fullmatch(r"(?P<name>.+)-(?P<tenant>[0-9]{1,10})-[0-9]+", identifier, re.ASCII)
    if found is None:
        return None
    number = found["tenant"]
    tenant = int(number) if number.startswith("0") else -int(number)
    return tenant, unquote(found["name"].replace("~", "%"))


def sanitised(stream: str) -> str:
    """Return a stream's name as the id of an element of a page; no two streams have the same."""
    letters = re.sub(r"[^A-Za-z0-9_.-]", "_", stream)
    return f"s_{letters}{zlib.crc32(stream.encode())}"
