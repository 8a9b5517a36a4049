"""The script languages that are installed."""

from __future__ import annotations

from siddhi.scripts import javascript
from siddhi.scripts.language import ScriptLanguage
from siddhi.scripts.python import PYTHON


def script_languages() -> tuple[ScriptLanguage, ...]:
    """Return the languages whose engine is installed, without those of extensions."""
    return (PYTHON, javascript.JAVASCRIPT) if javascript.is_installed() else (PYTHON,)
