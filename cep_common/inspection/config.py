"""The configuration of a process's log."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from cep_common.protocol.inspection import Level

Port = Annotated[int, Meta(ge=1, le=65_535)]


class LogConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Configure where a process writes its log.

    Records of at least `level` are written to standard error, and the newest are kept in memory, up to `ring_bytes`,
    for managers that ask at a port of the range. With a `folder` they also go to a file there, one JSON object a line;
    a file that reaches `file_bytes` is rotated, and `files` of them are kept.
    """

    level: Level = "INFO"
    ring_bytes: Annotated[int, Meta(ge=65_536, le=1_073_741_824)] = 2_097_152
    folder: str = ""
    file_bytes: Annotated[int, Meta(ge=65_536)] = 10_485_760
    files: Annotated[int, Meta(ge=1, le=1_000)] = 5
    first_port: Port = 13_000
    last_port: Port = 13_999

    def __post_init__(self) -> None:
        """Check the range of ports.

        Raises:
            ValueError: The last port is below the first.
        """
        if self.last_port < self.first_port:
            raise ValueError(f"last_port: must be at least first_port ({self.first_port})")
