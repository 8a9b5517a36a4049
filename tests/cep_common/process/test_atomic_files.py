"""Files that are replaced as a whole, whatever happens meanwhile."""

from __future__ import annotations

import os
from pathlib import Path
from stat import S_IMODE

import pytest

from cep_common.process.atomic_files import write_atomically


@pytest.mark.parametrize("several_writers", [False, True])
def test_a_file_that_cannot_be_written_stays_as_it_was_and_nothing_is_left_beside_it(
    tmp_path: Path, several_writers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "note"
    write_atomically(path, b"old", several_writers=several_writers)

    def fail(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, b"new", durable=True, several_writers=several_writers)
    assert [(one.name, one.read_bytes()) for one in tmp_path.iterdir()] == [("note", b"old")]


def test_nobody_else_can_read_a_private_file_while_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change, sizes = os.fchmod, []

    def fchmod(descriptor: int, mode: int) -> None:
        sizes.append(os.fstat(descriptor).st_size)
        change(descriptor, mode)

    monkeypatch.setattr(os, "fchmod", fchmod)
    path = tmp_path / "note"
    write_atomically(path, b"x" * 1_000_000, mode=0o600)
    assert (sizes, S_IMODE(path.stat().st_mode), path.stat().st_size) == ([0], 0o600, 1_000_000)
