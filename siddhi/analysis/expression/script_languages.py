"""The script languages that a plan may use."""

from __future__ import annotations

from siddhi.analysis.problems import Problems
from siddhi.errors import did_you_mean
from siddhi.language.ast import Span
from siddhi.registry import Registry
from siddhi.scripts.language import ENGINES, ScriptLanguage


def usable_language(registry: Registry, written: str, span: Span, problems: Problems) -> ScriptLanguage | None:
    """Return the language that a plan calls `written`. Report a problem and return None if plans may not use it."""
    name = written.casefold()
    language = registry.script_language(name)
    if language is None:
        known = registry.script_languages()
        engine = f"`{ENGINES[name]}` brings it" if name in ENGINES else "an extension can add a language"
        hint = did_you_mean(name, known) or f"known here: {', '.join(known) or 'none'}; {engine}"
        message = f"functions cannot be written in '{written}': no engine for it is installed"
        problems.add("unknown-script-language", message, span, hint)
        return None
    if not registry.scripts.allows(name):
        message = f"functions in '{written}' are disabled here"
        hint = f"{registry.scripts.setting_for(name)} allows them, and trusts everyone who deploys plans with its hosts"
        problems.add("script-language-off", message, span, hint)
        return None
    return language
