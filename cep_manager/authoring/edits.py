"""Previews how much state and how many waiting events a plan keeps when its text is replaced."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from cep_manager.authoring.model import EditedPart, EditedStream, EditPreview
from cep_manager.authoring.processes import BoundedProcesses
from cep_manager.config import TrialConfig
from cep_manager.control.snapshot import ClusterSnapshot
from cep_manager.errors import TrialFailedError
from cep_manager.monitoring.status import plan_status
from cep_manager.plans.compiled_plan import CompiledPlan
from cep_manager.plans.record import PlanRecord
from query_plan.connectors.distribution import keeps_assignment
from siddhi.analysis.catalogue import builtin_registry
from siddhi.scripts.language import ScriptPolicy
from topology.edit_preview.messages import EditAnswer, EditRefused, EditRequest
from topology.events.conversion import Attributes, conversion_problem

LEAST_MS = 60_000
"""A preview runs no events, so nearly all of its time is spent loading the engine, which takes long on a busy host."""
NOT_RUNNING = "the plan does not run, so the size of its state is unknown"


class EditPreviews:
    """Previews edits, each in a separate process. Any thread may call; each call waits for its process."""

    def __init__(
        self,
        config: TrialConfig,
        scripts: ScriptPolicy,
        processes: BoundedProcesses,
        compiled: Callable[[str], CompiledPlan],
    ) -> None:
        self._config = config
        self._scripts = scripts
        self._processes = processes
        self._compiled = compiled

    def preview(self, snapshot: ClusterSnapshot, record: PlanRecord, text: str) -> EditPreview:
        """Preview which state and events the deployed plan `record` would keep if `text` replaced it.

        Raises PlanInvalidError, TrialsBusyError, TrialFailedError.
        """
        edited = self._compiled(text)
        name = record.key.plan
        if record.compiled is None:
            return EditPreview(name, 0, 0, (), (), f"the deployed text cannot run: {record.unusable}")
        status = plan_status(snapshot, record.key)
        held = {(part.kind, part.name): part for part in status.state}
        parts = tuple(
            msgspec.structs.replace(part, held=held.get((part.kind, part.name)))
            for part in self._fates(record.compiled, edited)
        )
        kept = sum(part.kept for part in parts)
        streams = tuple(_streams(snapshot, record, record.compiled, edited))
        notes = [] if snapshot.tasks.get(record.key) else [NOT_RUNNING]
        notes += _redistribution_notes(snapshot, record, record.compiled, edited)
        return EditPreview(name, kept, len(parts) - kept, parts, streams, "; ".join(notes))

    def _fates(self, former: CompiledPlan, edited: CompiledPlan) -> tuple[EditedPart, ...]:
        timeout_ms = max(self._config.timeout_ms, LEAST_MS)
        registry = builtin_registry(self._scripts)
        request = EditRequest(
            former=former.query_plan,
            edited=edited.query_plan,
            script_languages=tuple(one for one in registry.script_languages() if self._scripts.allows(one)),
            seconds=-(-timeout_ms // 1_000),
            memory_bytes=self._config.memory_bytes,
        )
        written = self._processes.answer(
            "topology.edit_preview", msgspec.json.encode(request), "run fewer instances of its stages", timeout_ms
        )
        answer: EditAnswer = msgspec.json.decode(written, type=EditAnswer)
        if isinstance(answer, EditRefused):
            raise TrialFailedError(f"cannot determine which state the edit keeps: {answer.message}")
        return tuple(EditedPart(one.stage, one.kind, one.name, one.kept, one.reason, None) for one in answer.parts)


def _streams(
    snapshot: ClusterSnapshot, record: PlanRecord, former: CompiledPlan, edited: CompiledPlan
) -> Iterator[EditedStream]:
    now = {binding.stream: binding.attributes for binding in edited.imported}
    for binding in former.imported:
        waiting = _waiting(snapshot, record, binding.stream)
        if binding.stream not in now:
            reason = f"{binding.stream} is not imported by the text"
            yield EditedStream(binding.stream, waiting, "failed", reason)
        elif problem := conversion_problem(binding.attributes, now[binding.stream]):
            yield EditedStream(binding.stream, waiting, "failed", problem)
        elif binding.attributes != now[binding.stream]:
            yield EditedStream(binding.stream, waiting, "mapped", _mapping(binding.attributes, now[binding.stream]))
        elif waiting:
            yield EditedStream(binding.stream, waiting, "kept", "")


def _redistribution_notes(
    snapshot: ClusterSnapshot, record: PlanRecord, former: CompiledPlan, edited: CompiledPlan
) -> Iterator[str]:
    """Yield a warning for each stream with waiting results that the edited sinks would distribute differently."""
    mine = (record.key.tenant, record.key.plan)
    for stream in dict.fromkeys(one.stream for one in former.sinks):
        had, has = ([one for one in plan.sinks if one.stream == stream] for plan in (former, edited))
        waiting = sum(
            one.waiting_events
            for worker in (*snapshot.live_workers(), *snapshot.away_workers)
            for one in worker.latest.connectors
            if one.direction == "sink" and (one.tenant, one.plan, one.stream) == (*mine, stream)
        )
        if waiting and not keeps_assignment(had, has):
            yield (
                f"{waiting:,} results wait for sinks of {stream}, which this edit removes or distributes differently: "
                "some may be delivered twice and others not at all; deploy it when no results wait"
            )


def _waiting(snapshot: ClusterSnapshot, record: PlanRecord, stream: str) -> int:
    """Return events of `stream` that workers accepted and the topology has not taken over."""
    reports = (
        report
        for worker in (*snapshot.live_workers(), *snapshot.away_workers)
        for report in worker.latest.plans
        if report.key == record.key and report.epoch >= record.first_epoch
    )
    return sum(
        one.waiting_events + one.in_flight_rows for report in reports for one in report.inflow if one.stream == stream
    )


def _mapping(had: Attributes, has: Attributes) -> str:
    """Describe how events with the attributes `had` become events with `has`."""
    before, after = dict(had), dict(has)
    new = [name for name in after if name not in before]
    wider = [f"{name} ({before[name]} to {kind})" for name, kind in has if before.get(name, kind) != kind]
    gone = [name for name in before if name not in after]
    told = (("null", new), ("widened", wider), ("left out", gone))
    listed = "; ".join(f"{what}: {', '.join(names)}" for what, names in told if names)
    return f"by name; {listed}" if listed else "by name"
