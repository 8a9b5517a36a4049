"""A file that is not YAML is told of by the place of its mistake, and nothing of it is quoted."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest

from cep_common.configuration.yaml_files import read_yaml
from cep_common.errors import ConfigError

SECRET = "hunter2"  # noqa: S105 - of nothing


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("user: cep\npassword: hunter2: x", "line 2, column 18: mapping values are not allowed here"),
        (
            "password: 'hunter2",
            "line 1, column 19: found unexpected end of stream (while scanning a quoted scalar that",
        ),
        ("password: %hunter2", "line 1, column 11: found character '%' that cannot start any token"),
        ("user: cep\npassword: *hunter2", "line 2, column 11: found undefined alias"),
        ("password: !hunter2", "line 1, column 11: could not determine a constructor for the tag"),
        ("password: !!hunter2's", "line 1, column 11: could not determine a constructor for the tag"),
        ("password: !hunter2!x y", "line 1, column 11: found undefined tag handle"),
        (
            "a: &hunter2 1\nb: &hunter2 2",
            "line 2, column 4: second occurrence (found duplicate anchor; first occurrence",
        ),
        ("url: [hunter2\nuser: x", "(while parsing a flow sequence that begins in line 1)"),
        ("password: hunter2\n\t- x", "line 2, column 1: found character '\\t' that cannot start any token"),
        ("password: hunter2\0", "character 18: special characters are not allowed"),
        ("!!int hunter2", "contains an invalid date or number"),
        ("hunter2: 2020-13-45", "contains an invalid date or number"),
    ],
)
def test_the_place_of_a_mistake_is_told_and_no_secret(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "worker.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as refused:
        read_yaml(path)
    assert refused.value.message.startswith(f"{path}: is not YAML: ")
    assert told in refused.value.message
    assert SECRET not in "".join(traceback.format_exception(refused.value))


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "worker.yaml"
    path.write_bytes(b"password: hunter2\xff")
    with pytest.raises(ConfigError, match="is not YAML: byte 18 is not UTF-8") as refused:
        read_yaml(path)
    assert SECRET not in "".join(traceback.format_exception(refused.value))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.yaml: cannot be read: No such file"):
        read_yaml(tmp_path / "nowhere.yaml")
