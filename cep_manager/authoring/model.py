"""Data types that the manager shows to authors of plans."""

from __future__ import annotations

from typing import Literal

import msgspec

from cep_common.protocol.tasks import ComponentState
from cep_manager.errors import PlanProblem
from cep_manager.graph.model import TopologyGraph
from siddhi.trial.messages import TrialEvent

CallableKind = Literal["window", "aggregator", "function", "stream-function"]
NameKind = Literal["stream", "table", "window", "aggregation", "trigger", "function"]


class Callable(msgspec.Struct, frozen=True):
    """A function, window or other extension that a plan may call.

    `signatures` are the ways to call it; `summary` and `description` say what it does.
    """

    kind: CallableKind
    name: str
    signatures: tuple[str, ...]
    summary: str
    description: str


class AnnotationHelp(msgspec.Struct, frozen=True):
    """The beginning of an annotation, for completion, and its description."""

    text: str
    summary: str


class Language(msgspec.Struct, frozen=True):
    """The language that a manager accepts.

    `units` are the units of time, `script_languages` those in which plans may define functions.
    """

    keywords: tuple[str, ...]
    units: tuple[str, ...]
    types: tuple[str, ...]
    annotations: tuple[AnnotationHelp, ...]
    callables: tuple[Callable, ...]
    script_languages: tuple[str, ...]


class ScopeName(msgspec.Struct, frozen=True):
    """A name that queries may use, with the attributes of its events or rows.

    `fed`: a query sends events to it; a function has its result as its only attribute.
    """

    kind: NameKind
    name: str
    attributes: tuple[tuple[str, str], ...]
    fed: bool = False


class Validation(msgspec.Struct, frozen=True):
    """The result of validating a plan: `problems` forbid deployment, `warnings` do not.

    `plan` is its name, empty when it cannot be read. `scope` lists the names that the text defines, as far as they
    could be determined.
    """

    valid: bool
    plan: str
    problems: tuple[PlanProblem, ...]
    warnings: tuple[PlanProblem, ...]
    scope: tuple[ScopeName, ...] = ()


class Preview(msgspec.Struct, frozen=True):
    """A plan before deployment.

    `graph` is the topology with nothing running, `query_plan` the XML, `explanation` the same in words, with hints
    where it may be slow.
    """

    plan: str
    graph: TopologyGraph
    query_plan: str
    explanation: str


class PlanTrial(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The plan in `text`, the events to send to it, and the `wait_ms` to wait after them.

    The first event without a timestamp gets `start_ms`, by default the current time.
    """

    text: str
    events: tuple[TrialEvent, ...]
    start_ms: int | None = None
    wait_ms: int = 0


class EditedPart(msgspec.Struct, frozen=True):
    """The effect of an edit on the state of one part of the deployed plan, held by `stage`.

    The state is `kept` (`reason` says how; empty: unchanged) or reset for that `reason`. `held` is the current state of
    the part; None if unknown.
    """

    stage: str
    kind: str
    name: str
    kept: bool
    reason: str
    held: ComponentState | None


class EditedStream(msgspec.Struct, frozen=True):
    """The effect of an edit on accepted events of an imported stream that still wait at workers, `waiting_events` now.

    They are `kept` unchanged, `mapped` to the stream's new attributes, or become `failed` events.
    """

    stream: str
    waiting_events: int
    fate: Literal["kept", "mapped", "failed"]
    reason: str


class EditPreview(msgspec.Struct, frozen=True):
    """The state and events that the deployed plan keeps if the text replaces it.

    `streams` are those that it changes and those with waiting events. `note` describes what cannot be predicted, and
    which results may be lost or duplicated; it may be empty.
    """

    plan: str
    kept: int
    reset: int
    parts: tuple[EditedPart, ...]
    streams: tuple[EditedStream, ...]
    note: str = ""
