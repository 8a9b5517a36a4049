"""A folder whose files are plans: which of them to deploy now, and which plans to undeploy with their files.

Pure.

FOLDER/late.siddhiql       a plan of the super tenant
FOLDER/7/late.siddhiql     a plan of tenant 7

A file acts when it changes: what is done to its plan by other ways stands until the file changes again or goes. The
plan keeps an origin, so that a manager that starts again knows what it has done: the file's name and the digest of its
text, and which of two nodes has the file. Each node has a folder of its own: what the other one finds there when it
takes over may be old, so it changes and undeploys nothing before it changes itself.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from cep_common.ids import SUPER_TENANT, PlanKey, parse_tenant

SUFFIX = ".siddhiql"

_ORIGIN = re.compile(r"(?P<name>.+) sha256:(?P<digest>[0-9a-f]{64})(?: node:(?P<node>.+))?", re.DOTALL)

Stamp = tuple[int, int]
"""A file's time of change in nanoseconds and its size in bytes: when both stay, its contents have stayed."""


@dataclass(frozen=True, slots=True)
class FileOrigin:
    """The file that a plan was deployed from, by its name within the folder, and the digest of the text it had.

    `node` is the one of two nodes whose folder it is; empty: there are no nodes.
    """

    name: str
    digest: str
    node: str = ""

    def text(self) -> str:
        """Return the origin as the plan store keeps it."""
        return f"{self.name} sha256:{self.digest}" + (f" node:{self.node}" if self.node else "")

    def is_equal(self, other: FileOrigin) -> bool:
        """Return whether `other` is this file with this text, on this or on another node."""
        return (self.name, self.digest) == (other.name, other.digest)


@dataclass(frozen=True, slots=True)
class FileProblem:
    """Why the text that a file has now is not what runs."""

    name: str
    problem: str


@dataclass(frozen=True, slots=True)
class FolderChanges:
    """Changes of the folder: the `changed` files to read, and the `gone` plans whose files are no longer there."""

    changed: tuple[str, ...]
    gone: tuple[PlanKey, ...]


@dataclass(slots=True)
class PlanFolder:
    """The known files of the folder of `node`, from one scan to the next."""

    node: str = ""
    _shared: set[str] = field(default_factory=set)
    """Files that were in this folder with the text of the other node's."""
    _seen: dict[str, Stamp] = field(default_factory=dict)
    _handled: dict[str, Stamp] = field(default_factory=dict)
    _problems: dict[str, str] = field(default_factory=dict)
    _waiting: set[str] = field(default_factory=set)
    _last_context: tuple[frozenset[str], dict[PlanKey, FileOrigin | None]] = (frozenset(), {})

    def look(self, files: Mapping[str, Stamp], origins: Mapping[PlanKey, FileOrigin | None]) -> FolderChanges:
        """Compare the folder's `files` with the deployed plans' `origins` and return what to do.

        A file is read only once two looks have found it unchanged, since it may still be being written. A plan whose
        file was removed waits until all other files have been read, since one of them may have taken over the plan. A
        file that waits for others is read again when another file or plan has come or gone.
        """
        context = (frozenset(files), dict(origins))
        if context != self._last_context:
            self.try_again()
            self._last_context = context
        changed = tuple(
            name
            for name, stamp in sorted(files.items())
            if self._seen.get(name) == stamp and self._handled.get(name) != stamp
        )
        settled = all(self._seen.get(name) == stamp for name, stamp in files.items())
        self._seen = dict(files)
        for known in (self._handled, self._problems):
            for name in [name for name in known if name not in files]:
                del known[name]
        gone = tuple(
            key
            for key, origin in sorted(origins.items())
            if origin is not None
            and origin.name not in files
            and (origin.node == self.node or origin.name in self._shared)
        )
        return FolderChanges(changed, gone if settled and not changed else ())

    def note_shared(self, name: str) -> None:
        """Note that the file is the same on both nodes: its plan goes with this one, too."""
        self._shared.add(name)

    def is_edited(self, name: str) -> bool:
        """Return whether the file, which has changed, had another text in this folder before."""
        return name in self._handled

    def try_again(self) -> None:
        """Read the files that wait once more, though no other file or plan has come or gone."""
        for name in self._waiting:
            self._handled.pop(name, None)
        self._waiting.clear()

    def handled(self, name: str, problem: str = "", waits: bool = False) -> None:
        """Note that the file's text has been deployed, or was refused because of `problem`.

        It `waits` when other files and plans are in its way, rather than its text.
        """
        self._handled[name] = self._seen[name]
        self._problems.pop(name, None)
        self._waiting.discard(name)
        if waits:
            self._waiting.add(name)
        if problem:
            self._problems[name] = problem

    def problems(self) -> tuple[FileProblem, ...]:
        """Return every file whose text is not what runs, in order of names.

        Of names that are not text, bytes are shown.
        """
        return tuple(FileProblem(_as_text(name), problem) for name, problem in sorted(self._problems.items()))


def origin_of(name: str, contents: bytes, node: str = "") -> FileOrigin:
    """Return the origin of a plan that is deployed from the file called `name` with `contents`, of `node`.

    ValueError when the name is not text: the plan store could not keep it.
    """
    if _as_text(name) != name:
        raise ValueError("the file's name is not UTF-8; rename it")
    return FileOrigin(name, hashlib.sha256(contents).hexdigest(), node)


def parse_origin(text: str) -> FileOrigin | None:
    """Return the origin that the plan store has kept; None for a plan that was deployed by hand."""
    found = _ORIGIN.fullmatch(text)
    return FileOrigin(found["name"], found["digest"], found["node"] or "") if found else None


def tenant_of(name: str) -> int:
    """Return the tenant that the file's folder names. Raises ValueError when that is no tenant's number."""
    folder, separator, _ = name.rpartition("/")
    return parse_tenant(folder) if separator else SUPER_TENANT


def _as_text(name: str) -> str:
    """Return the name with bytes that are not UTF-8 replaced.

    They are halves of surrogate pairs in Python's file names, which cannot be sent or stored.
    """
    return name.encode(errors="backslashreplace").decode()
