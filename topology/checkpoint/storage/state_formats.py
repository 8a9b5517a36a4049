"""In which formats the engine's states in a checkpoint were written, and whether this version can read them.

The engine of every version reads some formats of snapshots. Tasks note the format of what they store; in checkpoints of
earlier versions, the first bytes of each state identify it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from cep_common.protocol.checkpoints import StoredState
from siddhi.engine.snapshots.envelope import READABLE, READABLE_FORMATS, format_of
from topology.checkpoint.errors import OTHER_VERSION, CheckpointUnreadableError
from topology.checkpoint.model import Manifest
from topology.checkpoint.storage.store import CheckpointStore

_READABLE = frozenset((0, *READABLE))


def noted_formats(states: Iterable[StoredState]) -> tuple[int, ...]:
    """Return the formats of `states` that this version cannot read, as far as their bytes say."""
    return tuple(sorted({found for state in states for found in (state.format, format_of(state.inline))} - _READABLE))


def unreadable_formats(store: CheckpointStore, manifest: Manifest) -> tuple[int, ...]:
    """Return the formats of states in the checkpoint that this version cannot read. Raises CheckpointError."""
    found = set(noted_formats(manifest.states))
    if not any(state.format for state in manifest.states):
        first = {state.chunks[0] for state in manifest.states if state.chunks}
        with contextlib.suppress(CheckpointUnreadableError):  # damage is detected by the reader of the whole object
            found |= {format_of(chunk) for chunk in store.read_chunks(manifest.key, manifest.packs, first).values()}
    return tuple(sorted(found - _READABLE))


def format_problem(formats: tuple[int, ...]) -> str:
    """Say why states in these formats cannot be read, and what can be done about it; empty when there are none."""
    if not formats:
        return ""
    written = " and ".join(map(str, formats))
    newer = max(formats) > max(READABLE)
    remedy = "run the version that wrote it, or a later one" if newer else "run the version that wrote it"
    return f"its state is in format {written}, this version reads {READABLE_FORMATS}: {remedy}"


def refuse_unreadable(store: CheckpointStore, manifest: Manifest, what: str) -> None:
    """Raise CheckpointUnreadableError when this version cannot read the checkpoint's states.

    The message calls the checkpoint `what`.
    """
    problem = format_problem(unreadable_formats(store, manifest))
    if problem:
        raise CheckpointUnreadableError(OTHER_VERSION, f"{what} cannot be used: {problem}")
