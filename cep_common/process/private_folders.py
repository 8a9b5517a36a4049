"""Folders that only the user of a process can access."""

from __future__ import annotations

from pathlib import Path


def make_private(folder: Path) -> None:
    """Create `folder` and its missing parents, accessible by this user only; existing folders keep their modes.

    `Path.mkdir` applies its mode to the last folder only. Raises OSError.
    """
    for missing in reversed([one for one in (folder, *folder.parents) if not one.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)
    folder.mkdir(exist_ok=True)
