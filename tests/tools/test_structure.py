"""The structure of the source: one name for one class, and no circle of imports between modules or folders."""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("siddhi", "query_plan", "topology", "cep_common", "cep_manager", "cep_worker", "cep_cli")
SCRIPTS = ("tools", "benchmarks")
BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


class Module(NamedTuple):
    """A module's classes with their lines, and what it imports anywhere: in functions and for type checkers, too."""

    classes: list[tuple[str, int]]
    imports: list[str]
    relative: bool


@cache
def _modules() -> dict[str, Module]:
    """All modules by dotted name."""
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): _read(path)
        for package in (*PACKAGES, *SCRIPTS)
        for path in (ROOT / package).rglob("*.py")
    }


def _read(path: Path) -> Module:
    module, relative = Module([], [], relative=False), False
    statements: list[ast.AST] = [ast.parse(path.read_bytes())]
    while statements:
        node = statements.pop()
        for name in BLOCKS:
            statements += getattr(node, name, ())
        if isinstance(node, ast.ClassDef):
            module.classes.append((node.name, node.lineno))
        elif isinstance(node, ast.Import):
            module.imports.extend(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            relative = relative or bool(node.level)
            module.imports.extend(f"{node.module}.{alias.name}" for alias in node.names)
    return module._replace(relative=relative)


def test_no_two_classes_have_the_same_name() -> None:
    places = defaultdict(list)
    for name, module in _modules().items():
        for class_name, line in module.classes:
            places[class_name].append(f"{name}:{line}")
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_all_imports_are_absolute() -> None:
    assert not [name for name, module in _modules().items() if module.relative]


@pytest.mark.parametrize("package", PACKAGES)
def test_neither_modules_nor_folders_import_each_other_in_a_circle(package: str) -> None:
    folders: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for name, module in _modules().items():
        if name.split(".")[0] != package:
            continue
        for imported in map(_module_of, module.imports):
            mine, other = name.split("."), imported.split(".")
            common = next((n for n, (a, b) in enumerate(zip(mine, other, strict=False)) if a != b), 0)
            if common:  # both lie in the folder `mine[:common]`, in different children of it
                folders[".".join(mine[:common])][mine[common]].add(other[common])
    for folder, children in folders.items():
        try:
            TopologicalSorter(children).prepare()
        except CycleError as error:
            pytest.fail(f"{folder}: {' -> '.join(error.args[1])}")


def _module_of(imported: str) -> str:
    """The module that has what is imported."""
    return imported if imported in _modules() else imported.rpartition(".")[0]
