"""Tracks which runs took which checkpoints, and builds the messages for runs that may not continue them. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from cep_common.ids import PlanKey
from cep_common.protocol.drivers import FORMER_SAVEPOINT
from cep_common.protocol.registry import CheckpointSpan
from topology.checkpoint.coordination.runs import RunId
from topology.checkpoint.errors import CheckpointUnreadableError, decide
from topology.checkpoint.model import Lineage, Manifest
from topology.checkpoint.storage.store import ManifestName


def undecided(key: PlanKey, error: CheckpointUnreadableError) -> CheckpointUnreadableError:
    """Return `error` with what the operator has to decide."""
    return CheckpointUnreadableError(error.reason_code, f"{error}; {decide(key.plan)}")


def taken_by_another(run: RunId) -> str:
    """Return the message for a plan whose name another plan has taken over in the store."""
    return (
        f"another plan of the name {run.key.plan}, of tenant {run.key.tenant}, has begun in checkpoint.location "
        "since this one: managers with "
        "separate databases must not share it; the newest checkpoint of this one is kept "
        f"as savepoint {FORMER_SAVEPOINT}<number>: undeploy the other plan, then restart this one from there or from "
        "none"
    )


def later_has_begun(run: RunId, lineage: Lineage) -> str:
    """Return the message for a run of an earlier epoch or attempt than the newest in the store."""
    epoch, attempt = lineage.newest()
    return (
        f"checkpoints of {run.key.topology()} are of epoch {epoch} (attempt {attempt}) already, this is epoch "
        f"{run.epoch} (attempt {run.attempt}): another driver may be at work, or the manager's database was replaced "
        "by an older one; then restart the plan from a savepoint or from none"
    )


def closed_spans(lineage: Lineage, taken: Iterable[ManifestName]) -> tuple[CheckpointSpan, ...]:
    """Return the spans, the last of them up to the newest checkpoint that its attempt has completed."""
    if not lineage.spans:
        return ()
    newest = lineage.spans[-1]
    numbers = (one.checkpoint for one in taken if (one.epoch, one.attempt) == (newest.epoch, newest.attempt))
    last = max(numbers, default=newest.last)
    return (*lineage.spans[:-1], CheckpointSpan(newest.epoch, newest.attempt, last))


def cut_back(lineage: Lineage, manifest: Manifest) -> tuple[CheckpointSpan, ...]:
    """Return the spans when the plan goes back to `manifest`, which undoes what later attempts did."""
    spans = []
    for span in lineage.spans:
        if (span.epoch, span.attempt) == (manifest.epoch, manifest.attempt):
            spans.append(CheckpointSpan(span.epoch, span.attempt, manifest.checkpoint))
        elif (span.epoch, span.attempt) > (manifest.epoch, manifest.attempt):
            spans.append(CheckpointSpan(span.epoch, span.attempt, 0))
        else:
            spans.append(span)
    return tuple(spans)
