"""What a log is, in a file beside its segments."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import msgspec

from cep_common.ids import PlanKey
from cep_common.messages import StreamBinding

IDENTITY_FILE = "log.json"


class Identity(msgspec.Struct, frozen=True):
    """`log` is drawn by chance when the log is made; `attributes` are those of its events, as (name, type)."""

    log: str
    tenant: int
    plan: str
    stream: str
    attributes: tuple[tuple[str, str], ...]
    format: int = 1


def new_identity(key: PlanKey, binding: StreamBinding) -> Identity:
    """That of a log that begins now."""
    return Identity(uuid.uuid4().hex, key.tenant, key.plan, binding.stream, binding.attributes)


def read_identity(folder: Path) -> Identity | None:
    """The identity of the log in `folder`; None when there is none that can be read."""
    try:
        return msgspec.json.decode((folder / IDENTITY_FILE).read_bytes(), type=Identity)
    except (FileNotFoundError, NotADirectoryError, msgspec.MsgspecError, UnicodeDecodeError):
        return None


def write_identity(folder: Path, identity: Identity) -> None:
    """The folder is there and holds `identity`, whole and on the disk. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    passing = folder / f"{IDENTITY_FILE}.new"
    with passing.open("wb") as file:
        file.write(msgspec.json.encode(identity))
        file.flush()
        os.fsync(file.fileno())
    passing.replace(folder / IDENTITY_FILE)
