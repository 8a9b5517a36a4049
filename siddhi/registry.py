"""The registry of windows, aggregators, functions and stream functions that plans may call.

A declaration describes the form and type of a call; it never runs anything. The engine finds implementations by (kind,
namespace, name), editors show the descriptions, and analysis checks calls against the overloads as Siddhi does: by
number of arguments and by exact type, without widening.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from siddhi.language.ast import AttributeType
from siddhi.scripts.language import ScriptLanguage, ScriptPolicy, ScriptRunner


class Kind(Enum):
    """The kind of a declaration."""

    WINDOW = "window"
    AGGREGATOR = "aggregator"
    FUNCTION = "function"
    STREAM_FUNCTION = "stream function"


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a call, for the rules of a declaration.

    `value` is set for a constant; `attribute` means that it is a plain attribute of the input, `event` that it is a
    whole event.
    """

    type: AttributeType
    constant: bool = False
    value: bool | int | float | str | None = None
    attribute: bool = False
    event: bool = False


class CallError(Exception):
    """Raised by a rule for a call that fits an overload but is not allowed.

    `position` is the argument at fault, from 0 (None: the call as a whole), `hint` what to write instead.
    """

    def __init__(self, message: str, position: int | None = None, hint: str | None = None) -> None:
        """Create the error.

        Args:
            message: What is wrong with the call.
            position: The position of the argument, None if it is not about one.
            hint: What to write instead.
        """
        super().__init__(message)
        self.position = position
        self.hint = hint


Attributes = tuple[tuple[str, AttributeType], ...]
Arguments = tuple[Argument, ...]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter: the types it accepts, and whether it must be a constant or a plain attribute.

    With `condition` it is a constant text with a condition on the window's events.
    """

    name: str
    types: frozenset[AttributeType]
    description: str = ""
    constant: bool = False
    attribute: bool = False
    condition: bool = False


@dataclass(frozen=True, slots=True)
class Overload:
    """One form of a call.

    With `repeats` the last parameter may be repeated any number of times. `only_3x` restricts it to execution plans of
    the 3.x dialect.
    """

    parameters: tuple[Parameter, ...] = ()
    repeats: bool = False
    only_3x: bool = False

    def parameter_at(self, position: int) -> Parameter:
        """Return the parameter for the argument at `position`, from 0; the last one repeats.

        Args:
            position: Position of the argument, from 0.
        """
        return self.parameters[min(position, len(self.parameters) - 1)]

    def takes(self, count: int) -> bool:
        """Return whether the overload can have `count` arguments.

        Args:
            count: Number of arguments.
        """
        return count == len(self.parameters) or (self.repeats and count > len(self.parameters))


@dataclass(frozen=True, slots=True)
class Declaration:
    """A function, aggregator, window or stream function that a plan may call.

    `result` is the type of a function's or an aggregator's call, `appends` the attributes that a stream function adds
    after those of its input; both and `check` may raise `CallError`. `in_patterns` False excludes a stream function
    from patterns, whose elements process one event after the other. `spelling_3x` is its name, without a namespace, in
    execution plans of the 3.x dialect. `script_language` is the language of texts that a function runs; it can be
    called if plans may use that language.
    """

    kind: Kind
    name: str
    summary: str
    overloads: tuple[Overload, ...]
    namespace: str = ""
    description: str = ""
    result: Callable[[Arguments], AttributeType] | None = None
    appends: Callable[[Arguments], Attributes] | None = None
    check: Callable[[Arguments], None] | None = None
    in_patterns: bool = True
    spelling_3x: str | None = None
    script_language: str = ""

    @property
    def key(self) -> tuple[Kind, str, str]:
        """The kind, namespace and name, which are unique in a registry."""
        return self.kind, self.namespace, self.name

    @property
    def full_name(self) -> str:
        """The name with its namespace, as calls write it."""
        return f"{self.namespace}:{self.name}" if self.namespace else self.name

    def overloads_of(self, *, dialect_3x: bool) -> tuple[Overload, ...]:
        """Return the overloads that are available in a dialect.

        Args:
            dialect_3x: For an execution plan (Siddhi 3.x); otherwise for an app.
        """
        return tuple(overload for overload in self.overloads if dialect_3x or not overload.only_3x)

    def signatures(self, *, dialect_3x: bool = False) -> tuple[str, ...]:
        """Return each overload in the form `sum(value: int | long)`.

        Args:
            dialect_3x: For an execution plan (Siddhi 3.x); otherwise for an app.
        """
        overloads = self.overloads_of(dialect_3x=dialect_3x)
        return tuple(f"{self.full_name}({_parameters(overload)})" for overload in overloads)


class Registry:
    """Declarations by kind, namespace and name; names are case-sensitive.

    It also contains the languages of `define function`; `scripts` determines which of them plans may use,
    `script_runner` where such functions run (None: in the engine's process).
    """

    def __init__(
        self,
        declarations: Iterable[Declaration] = (),
        script_languages: Iterable[ScriptLanguage] = (),
        scripts: ScriptPolicy = ScriptPolicy(),  # noqa: B008 - frozen
        script_runner: ScriptRunner | None = None,
    ) -> None:
        """Create a registry.

        Args:
            declarations: What plans may call.
            script_languages: The languages of `define function`.
            scripts: Which of these plans may use.
            script_runner: Where functions in these languages run; None: in the engine's process.

        Raises:
            ValueError: Two declarations have the same kind and name.
        """
        self.scripts = scripts
        self.script_runner = script_runner
        self._languages: dict[str, ScriptLanguage] = {}
        self._by_key: dict[tuple[Kind, str, str], Declaration] = {}
        self._by_3x_spelling: dict[tuple[Kind, str, str], Declaration] = {}
        for declaration in declarations:
            self.add(declaration)
        for language in script_languages:
            self.add_script_language(language)

    def copy(self, scripts: ScriptPolicy, script_runner: ScriptRunner | None = None) -> Registry:
        """Return a copy of this registry with another policy on script languages.

        Args:
            scripts: Which script languages are allowed.
            script_runner: Where functions in them run; None: in the engine's process.
        """
        made = Registry(scripts=scripts, script_runner=script_runner)
        made._languages, made._by_key = dict(self._languages), dict(self._by_key)
        made._by_3x_spelling = dict(self._by_3x_spelling)
        return made

    def add_script_language(self, language: ScriptLanguage) -> None:
        """Add the language.

        Args:
            language: The language to add.

        Raises:
            ValueError: there is one of that name.
        """
        if language.name in self._languages:
            raise ValueError(f"the script language '{language.name}' is defined twice")
        self._languages[language.name] = language

    def script_language(self, name: str) -> ScriptLanguage | None:
        """Return the language of that name, in lower case, or None.

        Args:
            name: The name as it is written.
        """
        return self._languages.get(name)

    def script_languages(self) -> tuple[str, ...]:
        """Return the names of all script languages."""
        return tuple(self._languages)

    def add(self, declaration: Declaration) -> None:
        """Add the declaration.

        Args:
            declaration: What to add.

        Raises:
            ValueError: its kind, namespace and name are taken.
        """
        if declaration.key in self._by_key:
            raise ValueError(f"{declaration.kind.value} '{declaration.namespace}:{declaration.name}' is declared twice")
        self._by_key[declaration.key] = declaration
        if declaration.spelling_3x is not None:
            self._by_3x_spelling.setdefault((declaration.kind, "", declaration.spelling_3x), declaration)

    def find(self, kind: Kind, namespace: str, name: str, *, dialect_3x: bool = False) -> Declaration | None:
        """Return the declaration of that name, or None.

        Siddhi 3 looks up the class of a built-in by its name with a capital in front, so in that dialect the first
        letter of a name without namespace may have either case.

        Args:
            kind: What is called: a function, aggregator, window or stream function.
            namespace: Its namespace; empty for built-ins.
            name: The name as it is written.
            dialect_3x: For an execution plan (Siddhi 3.x); otherwise for an app.
        """
        key = (kind, namespace, name)
        found = self._by_key.get(key) or (self._by_3x_spelling.get(key) if dialect_3x else None)
        if found is None and dialect_3x and not namespace and name[:1].isupper():
            return self.find(kind, namespace, f"{name[0].lower()}{name[1:]}", dialect_3x=True)
        return found

    def names(self, kind: Kind, namespace: str = "") -> tuple[str, ...]:
        """Return all names of one kind in one namespace.

        Args:
            kind: What is called: a function, aggregator, window or stream function.
            namespace: Its namespace; empty for built-ins.
        """
        return tuple(n for (k, ns, n) in self._by_key if k is kind and ns == namespace)

    def __iter__(self) -> Iterator[Declaration]:
        """Return an iterator over all declarations."""
        return iter(self._by_key.values())


def _parameters(overload: Overload) -> str:
    def written(parameter: Parameter) -> str:
        types = [attribute_type.value for attribute_type in AttributeType if attribute_type in parameter.types]
        return f"{parameter.name}: {'any' if len(types) == len(AttributeType) else ' | '.join(types)}"

    parts = [written(parameter) for parameter in overload.parameters]
    return ", ".join([*parts, "…"] if overload.repeats else parts)
