"""Passwords in files."""

from __future__ import annotations

from pathlib import Path

import pytest

from cep_common.configuration.password_files import PasswordFileError, read_password


@pytest.mark.parametrize("text", ["secret", "secret\n", "secret\r\nwhat else stands there\n"])
def test_the_first_line_is_the_password(tmp_path: Path, text: str) -> None:
    file = tmp_path / "password"
    file.write_bytes(text.encode())
    assert read_password(str(file)) == "secret"


@pytest.mark.parametrize("content", [None, b"", b"\xff\xfe"])
def test_a_file_without_one_is_told_and_what_it_holds_is_not(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "password"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(PasswordFileError, match=f"^{file} cannot be read$"):
        read_password(str(file))
    with pytest.raises(PasswordFileError):
        read_password("no\0file")
