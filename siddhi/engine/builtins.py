"""Importing this module registers every built-in window, aggregator, function and stream function."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

from siddhi.engine import aggregators, functions, stream_functions, windows


def load(*packages: ModuleType) -> None:
    """Imports every module of `packages`, which makes their members known to their families."""
    for package in packages:
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"{package.__name__}.{module.name}")


load(aggregators, functions, stream_functions, windows)
