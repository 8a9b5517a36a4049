"""Follows the state of every stage of a plan into the stages of its edited text, as tasks would."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from cep_common.ids import PlanKey
from query_plan.model import ProcessingStage, instance_stage, stage_app
from query_plan.xml import read_xml
from siddhi.analysis.analyser import analyse
from siddhi.analysis.catalogue import builtin_registry
from siddhi.analysis.model import AnalysedApp
from siddhi.engine.app_runtime import AppRuntime
from siddhi.engine.migration.edit_preview import preview_edit
from siddhi.engine.snapshots.matching import PartName, name_of
from siddhi.engine.snapshots.part_definitions import PartKind
from siddhi.errors import SiddhiError
from siddhi.scripts.language import ScriptPolicy
from topology.edit_preview.messages import EditAnswer, EditFates, EditRefused, EditRequest, PartFate
from topology.errors import TopologyError
from topology.model import Topology
from topology.stages.contract import Parts
from topology.stages.kinds.processor import ENGINE, SHARED
from topology.stages.kinds.stored_tables import stores_of
from topology.stages.state.rescaling import rescaled
from topology.stages.state.restoring import former_stages

GONE = "the text has nothing with that name"


def run_preview(request: EditRequest) -> EditAnswer:
    """Return what the edit would keep, or why that is unknown."""
    scripts = ScriptPolicy(frozenset(request.script_languages), "the configuration")
    try:
        return EditFates(tuple(fates(_topology(request.former), _topology(request.edited), scripts)))
    except (SiddhiError, TopologyError) as error:
        return EditRefused(str(error))


def fates(former: Topology, edited: Topology, scripts: ScriptPolicy) -> Iterator[PartFate]:
    """Describe what happens to each part of `former` that may have state, in order of its stages."""
    states = {name: state for stage in former.plan.processors for name, state in _states(former, stage, scripts)}
    heirs = {before: now for now, before in former_stages(edited, states, scripts).items()}
    places = {name: stage.name for stage in edited.plan.processors for name in _names(_app(edited, stage, 0, scripts))}
    for stage in former.plan.processors:
        app = _app(former, stage, 0, scripts)
        heir = edited.plan.processor(heirs[stage.name]) if stage.name in heirs else None
        results = _followed(former, stage, app, edited, heir, states, scripts)
        for name in _names(app):
            kept, reason = results.get(name, (False, GONE))
            place = places.get(name)
            if not kept and place is not None and (heir is None or place != heir.name):
                reason = f"it was in stage {stage.name} and is in stage {place} now"
            yield PartFate(stage.name, name.kind.value, name.name, kept, reason)


def _followed(
    former: Topology,
    stage: ProcessingStage,
    app: AnalysedApp,
    edited: Topology,
    heir: ProcessingStage | None,
    states: Mapping[str, Parts],
    scripts: ScriptPolicy,
) -> dict[PartName, tuple[bool, str]]:
    """Return, for each part of `stage`, whether `heir` keeps it, and how or why not."""
    if heir is None:
        return {}
    as_many = replace(heir, parallel=stage.parallel)
    present = _app(edited, as_many, 0, scripts)
    results = {fate.part: (fate.kept, fate.reason) for fate in preview_edit(app, present)}
    if heir.parallel != stage.parallel:
        mine = {name: states[name] for name in former.component(stage.name).instances()}
        shares = rescaled(edited, heir, mine, scripts)
        if not shares.states:
            results = dict.fromkeys(results, (False, shares.left[0]))
    stored, to_store = set(stores_of(app)), set(stores_of(present))
    return {
        name: _fate_in_database(name.name in stored, name.name in to_store) or fate
        if name.kind is PartKind.TABLE
        else fate
        for name, fate in results.items()
    }


def _fate_in_database(is_there: bool, will_be_there: bool) -> tuple[bool, str] | None:
    """Return what happens to a table that is in a database or will be."""
    if is_there and will_be_there:
        return True, "its rows stay in their database"
    if is_there:
        return False, "its rows stay in a database that the text does not name"
    return (False, "its rows are in a database from now on") if will_be_there else None


def _names(app: AnalysedApp) -> list[PartName]:
    """Return the parts that may have state."""
    parts = (part.definition for part in AppRuntime(app).state.parts)
    return [name_of(part) for part in parts if part.query is None or part.query.held]


def _app(topology: Topology, stage: ProcessingStage, index: int, scripts: ScriptPolicy) -> AnalysedApp:
    return analyse(stage_app(topology.plan, instance_stage(stage, index)), builtin_registry(scripts))


def _states(topology: Topology, stage: ProcessingStage, scripts: ScriptPolicy) -> Iterator[tuple[str, Parts]]:
    """Yield the initial states of the stage's instances; instances that run the same app share one."""
    begun: dict[ProcessingStage, Parts] = {}
    for index, name in enumerate(topology.component(stage.name).instances()):
        mine = instance_stage(stage, index)
        if mine not in begun:
            runtime = AppRuntime(_app(topology, stage, index, scripts))
            runtime.start(0)
            begun[mine] = {ENGINE: runtime.snapshot(), **({SHARED: b""} if stage.sync == "replica" else {})}
        yield name, begun[mine]


def _topology(query_plan: str) -> Topology:
    plan = read_xml(query_plan)
    return Topology(PlanKey(0, plan.name), 1, plan, 1)
