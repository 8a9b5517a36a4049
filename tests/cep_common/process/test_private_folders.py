"""Folders of a process are for its user alone, those above them that it made, too."""

from __future__ import annotations

from pathlib import Path

from cep_common.process.private_folders import make_private


def test_every_folder_that_was_missing_is_private_and_others_are_left_alone(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir(mode=0o755)
    there.chmod(0o755)
    for _ in range(2):
        make_private(there / "made" / "inside")
    modes = [one.stat().st_mode & 0o777 for one in (there, there / "made", there / "made" / "inside")]
    assert modes == [0o755, 0o700, 0o700]
