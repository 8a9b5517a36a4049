"""Code reads every accepted option of sources, sinks and mappers, or the option has a single value."""

from __future__ import annotations

import ast
import inspect
import textwrap
from functools import cache
from pathlib import Path
from typing import Literal, get_args, get_origin

import msgspec
import pytest

from cep_common.protocol.registry import Connector
from query_plan.connectors.judging import CONNECTORS, KEY_VALUE, MAPPERS, connector_faults
from query_plan.connectors.mappers import TextSourceOptions
from query_plan.connectors.options import FaultKind, Options
from query_plan.connectors.sinks import HttpSinkOptions

ROOT = Path(__file__).parents[2]
PACKAGES = ("query_plan", "cep_worker", "topology")
READ_BY_NAME = {"topic": "cep_worker/plan_links/in_memory.py"}
"""Options that code reads from the declaration by their names, with the file."""
ALIKE = {(TextSourceOptions, "new_line_character")}
"""Options whose values are all equivalent: lines may end in any of these ways."""
KINDS: dict[str, type[Options]] = {
    **{f"{kind} {name}": one for kind, named in CONNECTORS.items() for name, one in named.items()},
    **{f"{kind} mapper {name}": one for kind, named in MAPPERS.items() for name, one in named.items()},
    **{f"{kind} mapper keyvalue": one for kind, one in KEY_VALUE.items()},
}


@cache
def files() -> tuple[tuple[Path, frozenset[str], frozenset[str]], ...]:
    """Return each file with the names that it uses and the attributes that it reads."""
    paths = (path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    return tuple((path, *names_and_reads(ast.parse(path.read_text(encoding="utf-8")))) for path in paths)


def names_and_reads(tree: ast.AST) -> tuple[frozenset[str], frozenset[str]]:
    names, read = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.ImportFrom):
            names |= {one.name for one in node.names}
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            read.add(node.attr)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr":
            read |= {one.value for one in node.args if isinstance(one, ast.Constant) and isinstance(one.value, str)}
    return frozenset(names), frozenset(read)


def read_by_its_class(kind: type[Options]) -> frozenset[str]:
    """Return the fields that methods of the options' class read."""
    return names_and_reads(ast.parse(textwrap.dedent(inspect.getsource(kind))))[1]


def family(kind: type[Options]) -> list[type[Options]]:
    return [one for one in kind.__mro__ if issubclass(one, Options) and one is not Options]


def unread(kind: type[Options]) -> list[str]:
    """Return the fields that neither the class nor a file that names it reads, except those with a single value."""
    names = {one.__name__ for one in family(kind)}
    read = {attribute for one in family(kind) for attribute in read_by_its_class(one)}
    for path, there, attributes in files():
        if names & there and path.parent.name != "connectors":
            read |= attributes
    return [
        field.name
        for field in msgspec.structs.fields(kind)
        if field.name not in read
        and not (get_origin(field.type) is Literal and len(get_args(field.type)) == 1)
        and field.name not in READ_BY_NAME
        and (kind, field.name) not in ALIKE
    ]


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_every_option_is_read(kind: type[Options]) -> None:
    assert unread(kind) == []


def test_an_option_that_no_code_reads_is_found() -> None:
    class Spare(HttpSinkOptions, frozen=True):
        never_read_by_any_code: str = ""

    assert unread(Spare) == ["never_read_by_any_code"]


def test_options_that_are_read_by_name_are_read_there() -> None:
    for name, file in READ_BY_NAME.items():
        assert f'options["{name}"]' in (ROOT / file).read_text(encoding="utf-8")


def test_an_option_that_changes_nothing_is_reported() -> None:
    connector = Connector("S", "http", {"publisher.url": "http://h/", "blocking.io": "false"}, "json", {})
    found = [one.fault for one in connector_faults("sink", connector, ["k"])]
    assert [(one.option, one.kind) for one in found] == [("blocking.io", FaultKind.IDLE)]
