"""Names of things that cross process borders: tenants, plans, topologies, component instances, endpoints."""

from __future__ import annotations

import re

import msgspec

SUPER_TENANT = -1234
"""The default tenant."""

_TENANT = re.compile(r"-?[0-9]{1,9}", re.ASCII)
_ADDRESS = re.compile(r"(?P<host>[^\s:/]+):(?P<port>\d{1,5})\Z")


class PlanKey(msgspec.Struct, frozen=True, eq=False, omit_defaults=True):
    """An execution plan of a tenant.

    `plan` is the name that it had when the key was made; `id` stays the same when the plan is renamed, and no other
    plan of the tenant ever gets it. It is empty for most plans, whose id is their first name. Two keys are equal if
    they mean the same plan, whatever its name was at the time; they are ordered by name.
    """

    tenant: int
    plan: str
    id: str = ""

    @property
    def identity(self) -> str:
        """The key of the plan's files and rows, never its name, which may change."""
        return self.id or self.plan

    def __eq__(self, other: object) -> bool:
        """Return whether both are of one plan: the same tenant and id, or name where one has no id."""
        if not isinstance(other, PlanKey):
            return NotImplemented
        return self.tenant == other.tenant and (self.id or self.plan) == (other.id or other.plan)

    def __ne__(self, other: object) -> bool:  # a msgspec struct defines an __ne__ of its own
        """Return the opposite of `==`."""
        return not self == other

    def __hash__(self) -> int:
        """Return the hash of the id, or of the name where there is no id."""
        # Without calls or a tuple, for speed: a manager hashes keys all the time, and few tenants use the same names.
        return hash(self.id or self.plan)

    def __lt__(self, other: PlanKey) -> bool:
        """Return whether this key comes first by tenant, name and id."""
        return (self.tenant, self.plan, self.id) < (other.tenant, other.plan, other.id)

    def topology(self) -> str:
        """Return the name of the plan's topology, such as `KnockOnDelays[-1234]`."""
        return f"{self.plan}[{self.tenant}]"


class Endpoint(msgspec.Struct, frozen=True, order=True, omit_defaults=True):
    """A host (name or address, no scheme) and a TCP port.

    If a process has one socket for all of its plans, `channel` identifies the plan.
    """

    host: str
    port: int
    channel: str = ""

    def url(self) -> str:
        """Return the address in ZeroMQ's form."""
        return f"tcp://{self.host}:{self.port}"


class InspectionAddress(msgspec.Struct, frozen=True):
    """The address at which a process answers managers that read its log; `run` is unique among processes."""

    endpoint: Endpoint
    run: str


def parse_tenant(text: str) -> int:
    """Return the tenant id in `text`. Raise ValueError for other texts."""
    if not _TENANT.fullmatch(text):
        raise ValueError(f"tenant must be a whole number, not {text[:40]!r}")
    return int(text)


def parse_endpoint(text: str) -> Endpoint:
    """Return the endpoint that `text` (`host:port`) names. Raise ValueError for other texts."""
    found = _ADDRESS.match(text)
    if found is None or not 1 <= int(found["port"]) <= 65_535:
        raise ValueError(f"{text!r} is not host:port")
    return Endpoint(found["host"], int(found["port"]))


def instance_name(component: str, index: int) -> str:
    """Return the name of one parallel instance of a component, such as `filtering#1` (from 0)."""
    return f"{component}#{index}"
