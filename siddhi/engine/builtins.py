"""Registration of all built-in windows, aggregators, functions and stream functions, and of extensions.

It happens when this module is imported.
"""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

import siddhi.analysis.catalogue  # noqa: F401 - extensions can be loaded only when it has been
from siddhi.engine.operators import aggregates, functions, stream_functions, windows
from siddhi.engine.operators.windows import by_expression, keyed
from siddhi.plugins.loading import load_implementations


def load(*packages: ModuleType) -> None:
    """Import every module of `packages`, whose registrations run on import."""
    for package in packages:
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"{package.__name__}.{module.name}")


load(aggregates, functions, stream_functions, windows, by_expression, keyed)
load_implementations()
