"""Which messages there are."""

from __future__ import annotations

from cep_common import (
    checkpoint_messages,
    driver_messages,
    host_messages,
    insight_messages,
    link_messages,
    messages,
    mirror_messages,
    task_messages,
)
from cep_common.messages import Message

MODULES = (
    messages,
    driver_messages,
    link_messages,
    task_messages,
    host_messages,
    checkpoint_messages,
    insight_messages,
    mirror_messages,
)


def message_types() -> dict[str, type[Message]]:
    """Every message type by its name on the wire."""
    kinds = (kind for module in MODULES for kind in vars(module).values())
    found = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Message) and kind is not Message]
    return {message.TYPE: message for message in found}
