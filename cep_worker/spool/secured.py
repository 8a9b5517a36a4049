"""Up to which position a log is secured, and up to which it need not be kept, in a file beside its segments."""

from __future__ import annotations

import logging
import os
import struct
from pathlib import Path
from zlib import crc32

logger = logging.getLogger(__name__)

SECURED_FILE = "secured"
_BEFORE = struct.Struct("<qI")
"""As earlier versions wrote it, which kept nothing that was secured."""
_SECURED = struct.Struct("<qqI")


class SecuredMark:
    """Only saves reading again what is secured: what is lost of it does no harm. Belongs to the log's thread."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / SECURED_FILE
        self._descriptor: int | None = None

    def read(self) -> tuple[int, int]:
        """What was noted last; zeros when nothing was, or it cannot be read."""
        data = self._path.read_bytes() if self._path.exists() else b""
        if len(data) == _BEFORE.size:
            position, checksum = _BEFORE.unpack(data)
            return (position, position) if checksum == crc32(data[:8]) else (0, 0)
        if len(data) != _SECURED.size:
            return 0, 0
        position, unneeded, checksum = _SECURED.unpack(data)
        return (position, unneeded) if checksum == crc32(data[:16]) else (0, 0)

    def note(self, position: int, unneeded: int) -> None:
        """The log is secured up to `position`, and need not be kept up to `unneeded`."""
        value = struct.pack("<qq", position, unneeded)
        try:
            if self._descriptor is None:
                self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            os.pwrite(self._descriptor, value + crc32(value).to_bytes(4, "little"), 0)
        except OSError as error:
            logger.warning("not noted how much of the spool is secured: folder=%s reason=%s",
                           self._path.parent, error.strerror)  # fmt: skip

    def close(self) -> None:
        """The file is closed."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
