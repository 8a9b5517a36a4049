"""Folders that belong to the user of a process alone."""

from __future__ import annotations

from pathlib import Path


def make_private(folder: Path) -> None:
    """Make `folder` and those above it that are missing, each for this user alone; an existing one keeps its mode.

    `Path.mkdir` gives its mode to the last folder only. Raises OSError.
    """
    for missing in reversed([one for one in (folder, *folder.parents) if not one.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)
    folder.mkdir(exist_ok=True)
