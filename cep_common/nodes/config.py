"""The configuration of the node that a process belongs to."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from cep_common.ids import Endpoint, parse_endpoint

Milliseconds = Annotated[int, Meta(ge=1)]


class NodeMember(msgspec.Struct, frozen=True):
    """The `folder` of the process's node, with `role.json`; empty if the process belongs to no node."""

    folder: str = ""


class ManagerNode(NodeMember, frozen=True):
    """The manager's part of a node.

    This is its `name` in the `group`, and where the other node reaches its event-sync server (`sync`) and its guard
    port (`guard`), as host:port.
    """

    name: str = ""
    group: str = "cep"
    sync: str = ""
    guard: str = ""

    def __post_init__(self) -> None:
        """Check that a node has a name and valid addresses.

        Raises:
            ValueError: A value is missing or malformed.
        """
        if self.folder and not self.name:
            raise ValueError("name: a node needs a name")
        for key, text in (("sync", self.sync), ("guard", self.guard)):
            if self.folder or text:
                try:
                    parse_endpoint(text)
                except ValueError as error:
                    raise ValueError(f"{key}: {error}") from error

    def sync_endpoint(self) -> Endpoint:
        """Return where the other node reaches the event-sync server."""
        return parse_endpoint(self.sync)

    def guard_endpoint(self) -> Endpoint:
        """Return where the other node probes whether a process of this node is still running."""
        return parse_endpoint(self.guard)


class WorkerNode(NodeMember, frozen=True):
    """The worker's part of a node.

    `state` is the folder that is mirrored, `host` and `port` those of the event-sync server. With `mirror` `async`,
    up to `queue` batches are acknowledged before the passive node has them. A passive node that does not answer for
    `timeout_ms` counts as down.
    """

    state: str = ""
    host: Annotated[str, Meta(min_length=1)] = "127.0.0.1"
    port: Annotated[int, Meta(ge=1, le=65_535)] = 9893
    mirror: Literal["sync", "async"] = "sync"
    queue: Annotated[int, Meta(ge=1)] = 20_000
    timeout_ms: Milliseconds = 1_000

    def __post_init__(self) -> None:
        """Check that a mirrored worker names its folder.

        Raises:
            ValueError: The folder is missing.
        """
        if self.folder and not self.state:
            raise ValueError("state: name the folder that is mirrored")
