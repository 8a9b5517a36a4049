"""The registry of message types."""

from __future__ import annotations

from cep_common.protocol import checkpoints, drivers, inspection, links, mirrors, registry, stage_hosts, tasks
from cep_common.protocol.registry import Message

MODULES = (
    registry,
    drivers,
    links,
    tasks,
    stage_hosts,
    checkpoints,
    inspection,
    mirrors,
)


def message_types() -> dict[str, type[Message]]:
    """Return every message type by its name on the wire."""
    kinds = (kind for module in MODULES for kind in vars(module).values())
    found = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Message) and kind is not Message]
    return {message.TYPE: message for message in found}
