"""What `warm_up` compiles is enough: no plan and no checkpoint waits for the compiler at its first events."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

CONFORMANCE = Path(__file__).parents[1] / "conformance" / "cases.jsonl.xz"
EVERY = 1 if os.environ.get("CEP_EXAMPLES") else 25
"""Every so many-th case of the conformance suite is run."""

_LOOK = """
import importlib, json, pkgutil, sys

from numba.core.caching import NullCache
from numba.core.registry import CPUDispatcher

import siddhi
import topology.checkpoint
from siddhi.testing import load_cases, run_case
from topology.warm_up import warm_up

warm_up()
kernels, called = {}, set()
for package in (siddhi, topology.checkpoint):
    for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        for one in vars(importlib.import_module(found.name)).values():
            if isinstance(one, CPUDispatcher) and not isinstance(one._cache, NullCache):
                kernels[f"{one.py_func.__module__}.{one.py_func.__name__}"] = one
for kernel in list(kernels.values()):
    for name in kernel.py_func.__code__.co_names:
        callee = kernel.py_func.__globals__.get(name)
        if isinstance(callee, CPUDispatcher):
            called.add(callee)

def versions():
    return {name: len(kernel.signatures) for name, kernel in kernels.items()}

before = versions()
missing = sorted(name for name, count in before.items() if not count and kernels[name] not in called)
later = []
for case in list(load_cases(sys.argv[1]))[:: int(sys.argv[2])]:
    try:
        run_case(case)
    except Exception:  # what is wrong with a case is for other tests
        pass
    after = versions()
    later += [f"{name} by {case.id}" for name, count in after.items() if count > before[name]]
    before = after
json.dump({"kernels": len(kernels), "missing": missing, "later": later}, sys.stdout)
"""
"""Looks for compiled loops that have no machine code after `warm_up`, or get another version for a case's plan."""


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    """What another process finds, as tests of this one have loaded loops already."""
    command = [sys.executable, "-c", _LOOK, str(CONFORMANCE), str(EVERY)]
    seen = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603 - our own
    answer: dict[str, Any] = json.loads(seen.stdout.splitlines()[-1])
    return answer


@pytest.mark.thorough
def test_all_loops_are_compiled_by_the_warm_up(found: dict[str, Any]) -> None:
    assert found["kernels"] > 100
    assert found["missing"] == []


@pytest.mark.thorough
def test_no_plan_of_the_conformance_suite_needs_another_version_of_a_loop(found: dict[str, Any]) -> None:
    assert found["later"] == []
