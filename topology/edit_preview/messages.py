"""The request and the answer of a preview of an edit. Knows nothing of the engine, so that the manager need not."""

from __future__ import annotations

import msgspec


class EditRequest(msgspec.Struct, frozen=True):
    """A request to compare a plan with its edited text.

    The query plan in XML `former` runs, and `edited` is to replace it. `script_languages` are those in which plans
    may define functions; the process may run for `seconds` and use `memory_bytes`.
    """

    former: str
    edited: str
    script_languages: tuple[str, ...] = ()
    seconds: int = 20
    memory_bytes: int = 2_147_483_648


class PartFate(msgspec.Struct, frozen=True):
    """What happens to the state of a part of the former plan, which `stage` held.

    It is kept (`reason` says how; empty: unchanged), or reset for that `reason`.
    """

    stage: str
    kind: str
    name: str
    kept: bool
    reason: str = ""


class EditFates(msgspec.Struct, frozen=True, tag="fates"):
    """Every part of the former plan that may have state, by stage."""

    parts: tuple[PartFate, ...]


class EditRefused(msgspec.Struct, frozen=True, tag="refused"):
    """The comparison is not possible."""

    message: str


EditAnswer = EditFates | EditRefused
