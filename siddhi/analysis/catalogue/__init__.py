"""The built-in windows, aggregators, functions and stream functions: what they are called and what they take."""

from __future__ import annotations

from siddhi.analysis.catalogue.aggregators import AGGREGATORS
from siddhi.analysis.catalogue.functions import FUNCTIONS
from siddhi.analysis.catalogue.stream_functions import STREAM_FUNCTIONS
from siddhi.analysis.catalogue.windows import WINDOWS
from siddhi.extensions.loading import extend
from siddhi.registry import Registry

SCRIPT_LANGUAGES = ("javascript",)
"""The languages of `define function`."""


def builtin_registry() -> Registry:
    """A new registry that knows all built-ins, extension packs and installed extensions."""
    registry = Registry((*WINDOWS, *AGGREGATORS, *FUNCTIONS, *STREAM_FUNCTIONS), SCRIPT_LANGUAGES)
    extend(registry)
    return registry
