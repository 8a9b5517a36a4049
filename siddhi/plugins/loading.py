"""Find extensions: those of this package and those that other packages offer by an entry point.

A broken extension is left out as a whole, with one line in the log; others are not affected.
"""

from __future__ import annotations

import functools
import importlib
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import metadata

from siddhi.plugins.extension import ENTRY_POINTS, Extension
from siddhi.plugins.packs import packs
from siddhi.registry import Declaration, Registry
from siddhi.scripts.installed import script_languages
from siddhi.scripts.language import ScriptLanguage

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BrokenExtension:
    """An extension that could not be used. `entry_point` is written `name = module:object`."""

    entry_point: str
    distribution: str
    reason: str

    def __str__(self) -> str:
        """Return the extension and why it cannot be loaded, as messages show it."""
        return f"extension '{self.entry_point}' of package '{self.distribution}': {self.reason}"


@dataclass(frozen=True, slots=True, eq=False)
class Installed:
    """The extensions of other packages, with their entry points and packages, and those that cannot be used."""

    extensions: tuple[tuple[Extension, str, str], ...]
    broken: tuple[BrokenExtension, ...]


def extend(registry: Registry) -> None:
    """Add the declarations of all packs and installed extensions to `registry`, which has the built-ins."""
    for pack in packs():
        for declaration in pack.declarations:
            registry.add(declaration)
    for extension, _, _ in installed().extensions:
        for declaration in extension.declarations:
            registry.add(declaration)
        for language in extension.script_languages:
            registry.add_script_language(language)


def load_implementations() -> tuple[BrokenExtension, ...]:
    """Register the implementations of every pack and installed extension; return the extensions that failed."""
    for pack in packs():
        for module in pack.implementations:
            importlib.import_module(module)
    return _implemented()


def forget_installed() -> None:
    """Clear the cache of installed extensions, so that the next use reads the entry points again."""
    installed.cache_clear()
    _implemented.cache_clear()


@functools.cache
def _implemented() -> tuple[BrokenExtension, ...]:
    found = installed()
    broken = list(found.broken)
    for extension, entry_point, distribution in found.extensions:
        try:
            for module in extension.implementations:
                importlib.import_module(module)
        except Exception as error:  # noqa: BLE001 - code of others may fail in any way and must not take the rest along
            broken.append(_refused(entry_point, distribution, f"its implementation cannot be imported: {error!r}"))
    return tuple(broken)


@functools.cache
def installed() -> Installed:
    """Return the extensions of other packages, cached until `forget_installed`."""
    known = Registry((declaration for pack in packs() for declaration in pack.declarations), script_languages())
    extensions, broken = [], []
    for point in sorted(metadata.entry_points(group=ENTRY_POINTS), key=lambda point: (point.name, point.value)):
        written = f"{point.name} = {point.value}"
        distribution = point.dist.name if point.dist is not None else "unknown"
        try:
            extension = point.load()
            reason = _fault(extension, known)
        except Exception as error:  # noqa: BLE001 - as above
            reason = f"it cannot be imported: {error!r}"
        if reason is not None:
            broken.append(_refused(written, distribution, reason))
            continue
        for declaration in extension.declarations:
            known.add(declaration)
        for language in extension.script_languages:
            known.add_script_language(language)
        extensions.append((extension, written, distribution))
    return Installed(tuple(extensions), tuple(broken))


def _fault(extension: object, known: Registry) -> str | None:
    """Return the fault in the declarations of an extension, or None."""
    if not isinstance(extension, Extension):
        return f"the entry point must name an Extension, not a {type(extension).__name__}"
    return _fault_of_names(extension.declarations, known) or _fault_of_languages(extension.script_languages, known)


def _fault_of_names(declarations: Iterable[Declaration], known: Registry) -> str | None:
    seen = set()
    for declaration in declarations:
        if not isinstance(declaration, Declaration):
            return f"its declarations must be Declarations, not a {type(declaration).__name__}"
        name = f"{declaration.namespace}:{declaration.name}"
        if not declaration.namespace:
            return f"'{declaration.name}' has no namespace; names without one belong to Siddhi"
        if declaration.key in seen or known.find(*declaration.key) is not None:
            return f"there is a {declaration.kind.value} '{name}' already"
        seen.add(declaration.key)
    return None


def _fault_of_languages(languages: Iterable[ScriptLanguage], known: Registry) -> str | None:
    seen = set()
    for language in languages:
        if not isinstance(language, ScriptLanguage):
            return f"its script languages must be ScriptLanguages, not a {type(language).__name__}"
        if language.name in seen or known.script_language(language.name) is not None:
            return f"there is a script language '{language.name}' already"
        if language.name != language.name.casefold():
            return f"the script language '{language.name}' must be written in lower case"
        seen.add(language.name)
    return None


def _refused(entry_point: str, distribution: str, reason: str) -> BrokenExtension:
    broken = BrokenExtension(entry_point, distribution, reason)
    logger.error("extension left out entry_point='%s' package=%s reason=%s", entry_point, distribution, reason)
    return broken
