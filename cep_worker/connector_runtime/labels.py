"""Labels of a plan's sources and sinks: a connector keeps its label when other parts of the plan are edited.

A label identifies a connector of a stream: `rdbms`, `rdbms#2`. Data outside the process is stored under it
(transactions, commits in a database, message numbers). If a label moved to another connector, that connector would skip
results or deliver them twice. So the labels are kept in a file for each plan.

    edit                        labels
    A, B        →  B            A: rdbms,  B: rdbms#2  →  B: rdbms#2
    B           →  B, C         C: rdbms#3 (`rdbms` belonged to another sink)
    B, C        →  B', C        B': rdbms#2, the options of B were changed
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Collection, Iterable, Sequence
from hashlib import blake2b, sha256
from pathlib import Path

import msgspec

from cep_common.ids import PlanKey
from cep_common.monitoring.paced_log import PacedLog
from cep_common.protocol.registry import Connector
from cep_worker.plans.connectors import DeclaredConnector
from cep_worker.storage.checked_json import delete_checked, read_checked, write_checked

logger = logging.getLogger(__name__)
paced_logger = PacedLog(logger)

MOST_FORMER = 100
"""The number of removed connectors of a plan that are remembered: if the edit is undone, they get their labels back."""
_OPTION_BYTES = 4
"""Bytes of a digest: few enough that it reveals nothing about a password in an option."""


class LabelledConnector(msgspec.Struct, frozen=True):
    """A stored connector: digests instead of options, since these may contain passwords.

    `form` is equal for equal declarations; `options` has a digest for each option.
    """

    stream: str
    type: str
    label: str
    form: str
    options: tuple[str, ...] = ()


class PlanLabels(msgspec.Struct, frozen=True):
    """The connectors of a plan, those that edits removed (the newest last), and by kind the highest number in use."""

    present: tuple[LabelledConnector, ...] = ()
    former: tuple[LabelledConnector, ...] = ()
    highest: dict[str, int] = {}


class ConnectorLabels:
    """The labels of all plans' connectors of one direction. Belongs to one thread."""

    def __init__(self, folder: str, direction: str) -> None:
        """Store labels in `folder`; empty: they are forgotten when the process ends."""
        self._folder = Path(folder) if folder else None
        self._direction = direction
        self._known: dict[PlanKey, PlanLabels] = {}
        self._deleted: set[PlanKey] = set()
        """Undeployed plans whose files are deleted: lists of them are long, and come again with each change."""

    def assign(
        self, key: PlanKey, connectors: Sequence[tuple[Connector, str]], taken: Collection[tuple[str, str]]
    ) -> list[str]:
        """Return the label of each connector of the plan, and store them.

        Args:
            key: The plan.
            connectors: All its connectors, each with the label under which it runs, or "".
            taken: Streams and labels of connectors that are declared elsewhere.
        """
        before = self._known.get(key)
        if before is None:
            before = self._read(key)
        after = assigned(before, connectors, taken)
        self._known[key] = after
        if after != before:
            self._write(key, after)
        return [one.label for one in after.present]

    def delete(self, keys: Collection[PlanKey]) -> None:
        """Delete the labels of undeployed plans: `keys` are all that are known, none of which is deployed again."""
        self._deleted.intersection_update(keys)
        for key in keys:
            self._known.pop(key, None)
            if key in self._deleted:
                continue
            path = self._path(key)
            try:
                if path is not None:
                    delete_checked(path)
            except OSError as error:  # tried again with the next change, or in the next process
                paced_logger.problem(str(path), "labels of an undeployed plan cannot be deleted: file=%s reason=%s",
                                     path, error.strerror)  # fmt: skip
            else:
                self._deleted.add(key)

    def _read(self, key: PlanKey) -> PlanLabels:
        path = self._path(key)
        if path is None:
            return PlanLabels()
        return read_checked(path, PlanLabels) or PlanLabels()

    def _write(self, key: PlanKey, labels: PlanLabels) -> None:
        self._deleted.discard(key)
        path = self._path(key)
        if path is None:
            return
        try:
            write_checked(path, labels)
        except OSError as error:
            paced_logger.problem(str(path), "labels of %ss cannot be saved, after an edit and a restart a %s "
"may get the label of another one: file=%s reason=%s", self._direction, self._direction, path,
                                 error.strerror)  # fmt: skip
        else:
            paced_logger.over(str(path), "labels of %ss can be saved again: file=%s", self._direction, path)

    def _path(self, key: PlanKey) -> Path | None:
        if self._folder is None:
            return None
        name = sha256(f"{key.tenant}/{key.identity}".encode()).hexdigest()[:32]
        return self._folder / "labels" / f"{name}.{self._direction}s.json"


def labels_of(
    wanted: Sequence[DeclaredConnector],
    running: Sequence[str | None],
    edited: Collection[PlanKey],
    labels: ConnectorLabels,
) -> list[str]:
    """Return the labels of all declared connectors.

    Args:
        wanted: All connectors of one direction.
        running: The label under which each of them already runs; None for those that are new.
        edited: Plans from which a connector was removed.
        labels: The stored labels of plans' connectors.
    """
    found = list(running)
    plans: dict[PlanKey, list[int]] = {}
    of_artefacts: dict[PlanKey, set[tuple[str, str]]] = {}
    for place, one in enumerate(wanted):
        if one.key is not None:
            plans.setdefault(one.key, []).append(place)
        elif (label := running[place]) is not None:
            of_artefacts.setdefault(one.plan(), set()).add((one.connector.stream, label))
    new = {one.key for one, label in zip(wanted, running, strict=True) if label is None}
    for key in [one for one in plans if one in new or one in edited]:
        connectors = [(wanted[place].connector, running[place] or "") for place in plans[key]]
        given = labels.assign(key, connectors, of_artefacts.get(key, ()))
        for place, label in zip(plans[key], given, strict=True):
            found[place] = label
    for place, one in enumerate(wanted):
        if found[place] is None:  # an artefact, which edits of plans do not affect
            stream, kind = one.connector.stream, one.connector.type
            used = of_artefacts.setdefault(one.plan(), set())
            used |= {(wanted[at].connector.stream, found[at] or "") for at in plans.get(one.plan(), ())}
            names = (kind if number == 1 else f"{kind}#{number}" for number in itertools.count(1))
            found[place] = next(name for name in names if (stream, name) not in used)
            used.add((stream, found[place] or ""))
    return [label or "" for label in found]


def form_of(connector: Connector) -> str:
    """Return a digest that is equal for equal declarations, in all processes."""
    return blake2b(msgspec.json.encode(connector), digest_size=16).hexdigest()


def assigned(
    before: PlanLabels, connectors: Sequence[tuple[Connector, str]], taken: Collection[tuple[str, str]]
) -> PlanLabels:
    """Return the labels after an edit. Pure.

    Connectors that run keep theirs, an equal one gets its former one, and an edited one that of the connector with
    which it has most options in common. All others get a number that was never used.
    """
    wanted = [_described(one) for one, _ in connectors]
    labels = {place: label for place, (_, label) in enumerate(connectors) if label}
    used = {*taken, *((wanted[place].stream, label) for place, label in labels.items())}
    left = [one for one in before.present if (one.stream, one.label) not in used]
    former = [one for one in before.former if (one.stream, one.label) not in used]
    for known in (left, former):
        for place, one in enumerate(wanted):
            same = next((other for other in known if place not in labels and _same_kind(one, other)
                         and other.form == one.form), None)  # fmt: skip
            if same is not None:
                labels[place] = same.label
                known.remove(same)
    for place, other in _most_alike(wanted, labels, left):
        labels[place] = other.label
        left.remove(other)
    used |= {(wanted[place].stream, label) for place, label in labels.items()}
    highest = dict(before.highest)
    for place, one in enumerate(wanted):
        if place not in labels:
            labels[place] = _new_label(one, highest, used)
            used.add((one.stream, labels[place]))
        _raise_highest(one, labels[place], highest)
    present = tuple(msgspec.structs.replace(one, label=labels[place]) for place, one in enumerate(wanted))
    return PlanLabels(present, tuple([*former, *left][-MOST_FORMER:]), highest)


def _described(connector: Connector) -> LabelledConnector:
    options = (*connector.options.items(), *connector.mapper_options.items(), ("@map", connector.mapper))
    digests = (blake2b(f"{name}={text}".encode(), digest_size=_OPTION_BYTES).hexdigest() for name, text in options)
    return LabelledConnector(connector.stream, connector.type, "", form_of(connector), tuple(digests))


def _same_kind(one: LabelledConnector, other: LabelledConnector) -> bool:
    return (one.stream, one.type) == (other.stream, other.type)


def _most_alike(
    wanted: Sequence[LabelledConnector], labelled: Collection[int], left: Iterable[LabelledConnector]
) -> list[tuple[int, LabelledConnector]]:
    """Pair connectors without a label with removed ones, first those with most options in common.

    Those with none in common are different connectors, not one that was edited.
    """
    pairs = [
        (common, place, other)
        for place, one in enumerate(wanted)
        if place not in labelled
        for other in left
        if _same_kind(one, other) and (common := len({*one.options} & {*other.options}))
    ]
    pairs.sort(key=lambda pair: -pair[0])  # stable: among equals the order of the declarations counts
    found: list[tuple[int, LabelledConnector]] = []
    for _, place, other in pairs:
        if all(place != chosen and other is not given for chosen, given in found):
            found.append((place, other))
    return found


def _new_label(one: LabelledConnector, highest: dict[str, int], used: Collection[tuple[str, str]]) -> str:
    first = highest.get(_kind(one), 0) + 1
    names = (one.type if number == 1 else f"{one.type}#{number}" for number in itertools.count(first))
    return next(name for name in names if (one.stream, name) not in used)


def _raise_highest(one: LabelledConnector, label: str, highest: dict[str, int]) -> None:
    _, _, number = label.partition("#")
    highest[_kind(one)] = max(int(number or 1), highest.get(_kind(one), 0))


def _kind(one: LabelledConnector) -> str:
    return f"{one.stream}/{one.type}"
