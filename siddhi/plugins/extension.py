"""The contents of an extension: declarations for analysis, and the modules that implement them in the engine."""

from __future__ import annotations

from dataclasses import dataclass

from siddhi.registry import Declaration
from siddhi.scripts.language import ScriptLanguage

ENTRY_POINTS = "cep.siddhi.extensions"
"""The entry-point group under which installed packages offer an `Extension`."""


@dataclass(frozen=True, slots=True)
class Extension:
    """A pack of functions, aggregators, windows and stream functions, or of languages to write functions in.

    An installed package offers it as an entry point of the group `cep.siddhi.extensions`. The manager imports the
    module that holds it, to check plans; only engines import `implementations`. So that module should not import numpy,
    numba or pyarrow.

    Args:
        name: Name of the pack, as lists of extensions show it.
        declarations: What plans may call; each must have a namespace.
        implementations: Names of modules that, when imported, register an implementation for every declaration.
        script_languages: Languages for `define function`.
    """

    name: str
    declarations: tuple[Declaration, ...]
    implementations: tuple[str, ...]
    script_languages: tuple[ScriptLanguage, ...] = ()
