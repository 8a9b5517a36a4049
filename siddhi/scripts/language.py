"""Script languages for functions in plans: `define function f[language] return type { … }`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

Script = Callable[[list[object]], object]
"""A function compiled from a script for one caller, which makes one call at a time. It gets the arguments of a call:
bool, int, float, str, None for null, and the values that objects consist of (lists, dicts, sets); it may keep none of
them. The result is converted to the type that the plan declares; any Exception makes the event fail. Calls with equal
arguments may be made once for all of them."""


@dataclass(frozen=True, slots=True)
class ScriptFailure:
    """The result of a failed call: the script raised `reason`, exceeded a limit, or was stopped."""

    reason: str


ScriptCalls = Callable[[Sequence[Sequence[object]]], Sequence[object]]
"""Makes the calls of a batch, given the arguments of each. Returns the result of each, or its `ScriptFailure`."""

LANGUAGES_OFF = {"python": False, "javascript": False}
"""The default switches of the known languages."""

ENGINES = {"javascript": "pip install 'cep-on-spark[javascript]'"}
"""How to install the engine of a known language."""


class ScriptError(Exception):
    """Raised for a text that is invalid in its language; `line` is the faulty line, from 1."""

    def __init__(self, message: str, line: int) -> None:
        """Create the error.

        Args:
            message: The error in the script.
            line: The line in the script, counted from 1.
        """
        super().__init__(message)
        self.line = line


@dataclass(frozen=True, slots=True)
class ScriptLanguage:
    """A language for `define function`.

    Args:
        name: Name in plans, in lower case.
        compile: Makes a function of the text between the braces without running any of it. Raises ScriptError. It
            should import the language's engine only when called, since the manager loads the declaration too. It must
            be a function of a module: processes that run scripts import it by its name.
    """

    name: str
    compile: Callable[[str], Script]


@dataclass(frozen=True, slots=True)
class ScriptPolicy:
    """The languages that plans may use: `allowed`, or with None all installed ones.

    `setting` is the message that explains how to allow another one, with `{language}` for its name.
    """

    allowed: frozenset[str] | None = None
    setting: str = ""

    @staticmethod
    def switched(switches: Mapping[str, bool], setting: str) -> ScriptPolicy:
        """Return a policy that allows the languages whose switch is on."""
        return ScriptPolicy(frozenset(language.casefold() for language, on in switches.items() if on), setting)

    def allows(self, language: str) -> bool:
        """Return whether plans may use `language`."""
        return self.allowed is None or language in self.allowed

    def setting_for(self, language: str) -> str:
        """Return the setting that would allow `language`."""
        return self.setting.format(language=language)


class ScriptRunner(Protocol):
    """Runs the scripts of an app outside the engine's process, where they can be stopped."""

    def function(self, language: ScriptLanguage, body: str, name: str) -> ScriptCalls:
        """Return the function `name` with the body `body`, which was checked to be valid in `language`."""
