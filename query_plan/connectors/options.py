"""Convert options of connectors and mappers from texts by name to typed structs."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar, get_args, get_origin

import msgspec

from cep_common.errors import ConfigError

MOST_UNKNOWN = 20
"""Maximum number of unknown options reported at once, since each is compared with all known ones."""
LONGEST_NAME = 80


class FaultKind(Enum):
    """The effect of a fault.

    `UNKNOWN`, `MISSING` and `WRONG` prevent the connector from running, though a missing option may come from a
    configuration. `IDLE` options are accepted without effect.
    """

    UNKNOWN = "unknown"
    MISSING = "missing"
    WRONG = "wrong"
    IDLE = "idle"


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of `option` (empty: of the options as a whole), and a hint."""

    option: str
    message: str
    hint: str = ""
    kind: FaultKind = FaultKind.WRONG

    def text(self) -> str:
        """Return the fault as a worker reports it."""
        named = f"{self.option}: {self.message}" if self.option and self.kind is not FaultKind.UNKNOWN else self.message
        return f"{named}; {self.hint}" if self.hint else named


def dotted(name: str) -> str:
    """Return the name of the option for a field: `file_uri` is `file.uri`."""
    return name.replace("_", ".")


class Options(msgspec.Struct, frozen=True, rename=dotted):
    """The options of one type.

    `without_effect` are options of Siddhi that are accepted without effect, with the reason. `varying` are options that
    may contain `{{attribute}}`, so that their values differ between events.
    """

    without_effect: ClassVar[Mapping[str, str]] = {}
    varying: ClassVar[frozenset[str]] = frozenset()

    def faults(self) -> Iterator[Fault]:
        """Yield faults of the combination of valid options; templates have been replaced by samples."""
        return iter(())


T = TypeVar("T", bound=Options)


def option_names(kind: type[Options]) -> tuple[str, ...]:
    """Return the options that have an effect, as users write them."""
    return tuple(field.encode_name for field in msgspec.structs.fields(kind))


def option_faults(
    kind: type[Options], options: Mapping[str, str], *, given_elsewhere: bool = False
) -> tuple[Fault, ...]:
    """Return all faults of `options`.

    With `given_elsewhere` missing options may come from a configuration.
    """
    known = option_names(kind)
    unknown = (name for name in options if name not in known)
    found = [_misplaced(kind, name, known) for name in itertools.islice(unknown, MOST_UNKNOWN)]
    values: dict[str, Any] = {}
    missing = False
    for field in msgspec.structs.fields(kind):
        name = field.encode_name
        if name in options:
            try:
                values[name] = _converted(field.type, options[name])
            except ValueError as error:
                found.append(Fault(name, str(error)))
        if name not in values and field.required:
            missing = True
            values[name] = ""  # all required options are texts
            if name not in options and not given_elsewhere:
                found.append(Fault("", f"missing required option {name}", kind=FaultKind.MISSING))
    together = msgspec.convert(values, kind).faults()
    whole = not (missing or given_elsewhere)
    found += (fault for fault in together if whole or fault.option in options)
    return tuple(found)


def read_options(kind: type[T], options: Mapping[str, str], where: str) -> T:
    """Return the options as `kind`; a value that is one of several words may be written in any case.

    Raises:
        ConfigError: For an unknown, missing or wrong option, with its name and `where`.
    """
    for fault in option_faults(kind, options):
        if fault.kind is not FaultKind.IDLE:
            raise ConfigError(f"{where}: {fault.text()}")
    return options_of(kind, options)


def options_of(kind: type[T], options: Mapping[str, str]) -> T:
    """Return the options as `kind`, after `option_faults` found no fault. They may contain values of events."""
    fields = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
    return msgspec.convert({name: _converted(fields[name], options[name]) for name in options if name in fields}, kind)


def path_of(uri: str) -> Path:
    """Return the path that a user wrote, with or without a leading `file:` or `file://`."""
    return Path(uri.removeprefix("file://").removeprefix("file:"))


def _misplaced(kind: type[Options], name: str, known: tuple[str, ...]) -> Fault:
    if name in kind.without_effect:
        return Fault(name, f"has no effect: {kind.without_effect[name]}", "take it out", FaultKind.IDLE)
    similar = (*known, *kind.without_effect) if len(name) <= LONGEST_NAME else ()
    near = difflib.get_close_matches(name, similar, n=1)
    advice = f"did you mean '{near[0]}'?" if near else f"known options: {', '.join(known) or 'none'}"
    return Fault(name, f"unknown option {name[:LONGEST_NAME]}", advice, FaultKind.UNKNOWN)


def _converted(type_: Any, text: str) -> Any:
    """Return `text` as a value of the type. Raise ValueError when it is invalid."""
    if get_origin(type_) is Literal:
        words = get_args(type_)
        found = next((word for word in words if word.casefold() == text.strip().casefold()), None)
        if found is None:
            raise ValueError(f"must be {' or '.join(words)}, not {text!r}")
        return found
    try:
        return msgspec.convert(text, type_, strict=False)
    except msgspec.ValidationError as error:
        said = str(error)
        raise ValueError(f"{said[0].lower()}{said[1:]}") from error
