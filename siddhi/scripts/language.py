"""Languages in which plans define functions of their own: `define function f[language] return type { … }`."""

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
    """The answer of a call that failed: the script raised `reason`, met a limit, or was stopped."""

    reason: str


ScriptCalls = Callable[[Sequence[Sequence[object]]], Sequence[object]]
"""Makes the calls of a batch, given the arguments of each. Returns what each returned, or its `ScriptFailure`."""

LANGUAGES_OFF = {"python": False, "javascript": False}
"""The switches of the languages that are known here, as they stand where others deploy plans."""

ENGINES = {"javascript": "pip install 'cep-on-spark[javascript]'"}
"""What brings the engine of a language that is known here without one."""


class ScriptError(Exception):
    """Raised for a text that is not valid in its language; `line` is the line at fault, from 1."""

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
    """The languages that plans may use: `allowed`, or with None all that are installed.

    `setting` is the message that explains how to allow another one, with `{language}` for its name.
    """

    allowed: frozenset[str] | None = None
    setting: str = ""

    @staticmethod
    def switched(switches: Mapping[str, bool], setting: str) -> ScriptPolicy:
        """Return the policy that allows the languages whose switch is on."""
        return ScriptPolicy(frozenset(language.casefold() for language, on in switches.items() if on), setting)

    def allows(self, language: str) -> bool:
        """Return whether plans may use `language`."""
        return self.allowed is None or language in self.allowed

    def way_out(self, language: str) -> str:
        """Return what would allow `language`."""
        return self.setting.format(language=language)


class ScriptRunner(Protocol):
    """Runs the scripts of an app outside the engine's process, where they can be stopped."""

    def function(self, language: ScriptLanguage, body: str, name: str) -> ScriptCalls:
        """Return the function `name` whose body is `body`, which was checked to be valid in `language`."""
