"""Compiled loops on disk are as new as their sources, in all files."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from siddhi.engine.jit.kernel_cache import source_stamp

LEAF = (
    "from siddhi.engine.jit.kernels import kernel_part\nSTEP = {step}\n"
    "@kernel_part\ndef leaf(x):\n    return x {sign} 1\n"
)
MIDDLE = (
    "from kernel_leaf import leaf\nfrom siddhi.engine.jit.kernels import kernel_part\n"
    "@kernel_part\ndef middle(x):\n    return leaf(x)\n"
)
TOP = (
    "from kernel_leaf import STEP\nfrom kernel_middle import middle\n"
    "from siddhi.engine.jit.kernels import state_kernel\n"
    "@state_kernel\ndef top(x):\n    return middle(x) + STEP\n"
)
MODULES = ("kernel_leaf", "kernel_middle", "kernel_top")


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, int], object]]:
    """Write the three files and import them again, as in a new process; return the compiled `top`."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def load(sign: str, step: int) -> object:
        for name, text in zip(MODULES, (LEAF, MIDDLE, TOP), strict=True):
            (tmp_path / f"{name}.py").write_text(text.replace("{sign}", sign).replace("{step}", str(step)))
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
        try:
            return importlib.import_module("kernel_top").top
        finally:
            sys.dont_write_bytecode = before

    yield load
    for name in MODULES:
        sys.modules.pop(name, None)


def test_a_loop_is_loaded_from_disk_when_nothing_changed(load) -> None:
    assert load("+", 10)(5) == 16
    again = load("+", 10)
    assert again(5) == 16
    assert sum(again.stats.cache_hits.values()) == 1
    assert not again.stats.cache_misses


def test_a_loop_is_compiled_anew_when_a_function_that_it_calls_by_another_changed(load) -> None:
    assert load("+", 10)(5) == 16
    assert load("-", 10)(5) == 14


def test_a_loop_is_compiled_anew_when_a_constant_of_another_file_changed(load) -> None:
    assert load("+", 10)(5) == 16
    assert load("+", 20)(5) == 26


def test_the_stamp_of_a_loop_knows_all_files_but_nothing_of_the_machine(load) -> None:
    first = source_stamp(load("+", 10).py_func)
    assert first == source_stamp(load("+", 10).py_func)
    assert first != source_stamp(load("*", 10).py_func)
