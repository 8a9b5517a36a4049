"""What an extension is: declarations that analysis reads, and the modules that implement them in the engine."""

from __future__ import annotations

from dataclasses import dataclass

from siddhi.registry import Declaration
from siddhi.scripts.language import ScriptLanguage

ENTRY_POINTS = "cep.siddhi.extensions"
"""The group of Python entry points under which installed packages offer an `Extension`."""


@dataclass(frozen=True, slots=True)
class Extension:
    """A pack of functions, aggregators, windows and stream functions, or of languages to write functions in.

    `implementations` are names of modules which, when imported, register an implementation for every declaration. Only
    an engine imports them: the module that holds the `Extension` should not need numpy, numba or pyarrow, since the
    manager reads it too.
    """

    name: str
    declarations: tuple[Declaration, ...]
    implementations: tuple[str, ...]
    script_languages: tuple[ScriptLanguage, ...] = ()
