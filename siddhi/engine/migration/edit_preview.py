"""A preview of the state that an edit of an app would keep, from both texts alone."""

from __future__ import annotations

from dataclasses import dataclass

from siddhi.analysis import model
from siddhi.engine.app_runtime import AppRuntime
from siddhi.engine.snapshots.matching import PartName


@dataclass(frozen=True, slots=True)
class PreviewedPart:
    """The effect of an edit on the state of one part of the running app.

    The state is kept, kept with groups and aggregates computed from its rows, or reset for that `reason`.
    """

    part: PartName
    kept: bool
    reason: str = ""


def preview_edit(now: model.AnalysedApp, edited: model.AnalysedApp) -> tuple[PreviewedPart, ...]:
    """Return the effect on each part of `now` with state if `edited` replaces it, in the order of its text."""
    before, after = AppRuntime(now), AppRuntime(edited)
    before.start(0)
    report = after.restore_matching(before.snapshot())
    left = {one.part: one for one in report.left}
    recomputed = {former for name, former in report.formers if name in report.recomputed}
    fates = []
    for part in before.state.parts:
        name = PartName(part.definition.kind, part.definition.name)
        if part.definition.query is not None and not part.definition.query.held:
            continue  # a stateless query
        if name in left:
            fates.append(PreviewedPart(name, kept=False, reason=left[name].why()))
        else:
            how = "its aggregates are computed from its rows" if name in recomputed else ""
            fates.append(PreviewedPart(name, kept=True, reason=how))
    return tuple(fates)
