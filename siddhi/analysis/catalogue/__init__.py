"""The built-in windows, aggregators, functions and stream functions: names and parameters."""

from __future__ import annotations

from functools import lru_cache

from siddhi.analysis.catalogue.aggregators import AGGREGATORS
from siddhi.analysis.catalogue.functions import FUNCTIONS
from siddhi.analysis.catalogue.stream_functions import STREAM_FUNCTIONS
from siddhi.analysis.catalogue.windows import WINDOWS
from siddhi.plugins.loading import Installed, extend, installed
from siddhi.registry import Registry
from siddhi.scripts.installed import script_languages
from siddhi.scripts.language import ScriptPolicy, ScriptRunner

ANY_SCRIPT = ScriptPolicy()
"""Plans may use every script language that is installed."""


def builtin_registry(scripts: ScriptPolicy = ANY_SCRIPT, script_runner: ScriptRunner | None = None) -> Registry:
    """Return a new registry with all built-ins, extension packs and installed extensions.

    `scripts` lists the languages in which plans may define functions. `script_runner` runs these functions; None runs
    them in the engine's process.
    """
    return _known(installed()).copy(scripts, script_runner)


@lru_cache(maxsize=1)
def _known(_installed: Installed) -> Registry:
    registry = Registry((*WINDOWS, *AGGREGATORS, *FUNCTIONS, *STREAM_FUNCTIONS), script_languages())
    extend(registry)
    return registry
