"""The initial state of each instance of a topology, computed from the states of the former topology.

An instance continues from the state of the same name. If a stage has another number of instances, its state is
redistributed. Since a worker may connect to any receiver, each receiver gets the positions of all of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from query_plan.planning.shared_state import log_name
from siddhi.scripts.language import ScriptPolicy
from topology.links.positions import Positions
from topology.model import PROCESSOR, PUBLISHER, RECEIVER, Component, Topology
from topology.stages.contract import Parts
from topology.stages.kinds.processor import SHARED
from topology.stages.kinds.receiver import POSITIONS, SECURED
from topology.stages.state.rescaling import in_common, rescaled


@dataclass(frozen=True, slots=True)
class InitialStates:
    """The initial states by instance; `left` describes, for users, state that could not be used."""

    states: Mapping[str, Parts]
    left: tuple[str, ...] = ()


def wanted(topology: Topology, mine: Collection[str], former: Collection[str]) -> set[str]:
    """Return which of the `former` instances' states are needed to open the instances `mine`."""
    names: set[str] = set()
    for component in _components(topology, mine):
        before = _of(component.name, former)
        if _replicates(topology, component) and log_instance(component.name) in former:
            names |= before.intersection(mine) or {f"{component.name}#0"}  # the copies are equal
            continue
        needs_all = component.kind == RECEIVER or _is_rescaled(component, before)
        if component.kind == PROCESSOR and before:
            needs_all |= _replicates(topology, component) != (log_instance(component.name) in former)
        names |= before if needs_all else before.intersection(mine)
        if component.kind == PROCESSOR and not before:
            names |= _orphans(topology, former)
    return names


def initial_states(
    topology: Topology, mine: Collection[str], former: Mapping[str, Parts], scripts: ScriptPolicy
) -> InitialStates:
    """Return the initial states of the instances `mine`. Raise TopologyError when a state cannot be read."""
    found: dict[str, Parts] = {}
    left: list[str] = []
    heirs = (
        _heirs(topology, former, scripts) if any(_is_new(one, former) for one in _components(topology, mine)) else {}
    )
    for component in _components(topology, mine):
        before = _of(component.name, former)
        here = [name for name in component.instances() if name in mine]
        if component.name in heirs:
            orphan = heirs[component.name]
            found.update({name: former[f"{orphan}#{name.rpartition('#')[2]}"] for name in here})
        elif component.kind == RECEIVER and before:
            shared = _shared_positions([former[name] for name in sorted(before)])
            found.update(dict.fromkeys(here, shared))
        elif _replicates(topology, component) and before and _is_shared([former[name] for name in before]):
            first = former[min(before)]
            found.update({name: former.get(name, first) for name in here})
        elif _is_rescaled(component, before) or (
            component.kind == PROCESSOR
            and before
            and _replicates(topology, component) != _is_shared([former[name] for name in before])
        ):
            stage = topology.plan.processor(component.name)
            shares = rescaled(topology, stage, {name: former[name] for name in before}, scripts)
            left += shares.left
            states = dict(zip(component.instances(), shares.states, strict=bool(shares.states)))
            found.update({name: states[name] for name in here if name in states})
        else:
            found.update({name: former[name] for name in here if name in before})
    return InitialStates(found, tuple(left))


def former_stages(topology: Topology, former: Mapping[str, Parts], scripts: ScriptPolicy) -> dict[str, str]:
    """Return, for each processing stage that continues from states in `former`, the stage that they belong to.

    This is the stage of the same name, or the one that has most in common with it.
    """
    heirs = _heirs(topology, former, scripts)
    stages = [component.name for component in topology.components if component.kind == PROCESSOR]
    return {name: heirs.get(name, name) for name in stages if name in heirs or _of(name, former)}


def _is_new(component: Component, former: Collection[str]) -> bool:
    return component.kind == PROCESSOR and not _of(component.name, former)


def _orphans(topology: Topology, former: Collection[str]) -> set[str]:
    """Return the instances of stages that the topology does not have under that name."""
    known = {component.name for component in topology.components}
    return {name for name in former if name.rpartition("#")[0] not in known}


def _heirs(topology: Topology, former: Mapping[str, Parts], scripts: ScriptPolicy) -> dict[str, str]:
    """Return, for stages that were renamed, the former ones that have most in common with them.

    Stages without a name are called after their streams, which an edit may change.
    """
    orphans: dict[str, set[str]] = {}
    for name in _orphans(topology, former):
        orphans.setdefault(name.rpartition("#")[0], set()).add(name)
    heirs: dict[str, str] = {}
    for component in topology.components:
        if not _is_new(component, former):
            continue
        stage = topology.plan.processor(component.name)
        alike = {
            orphan: in_common(former[f"{orphan}#0"], topology, stage, scripts)
            for orphan, instances in sorted(orphans.items())
            if len(instances) == stage.parallel and orphan not in heirs.values()
        }
        best = max(alike, key=lambda orphan: alike[orphan], default="")
        if best and alike[best]:
            heirs[component.name] = best
    return heirs


def keeps_state(topology: Topology, name: str) -> bool:
    """Return whether the instance's state is needed when another topology takes over."""
    return topology.component(name.rpartition("#")[0]).kind != PUBLISHER


def log_instance(group: str) -> str:
    """Return the instance of the log that keeps the copies of `group` equal, where its state is shared."""
    return f"{log_name(group)}#0"


def _replicates(topology: Topology, component: Component) -> bool:
    """Return whether each instance of the component has the whole state."""
    return component.kind == PROCESSOR and topology.plan.processor(component.name).sync == "replica"


def _is_shared(states: Sequence[Parts]) -> bool:
    return all(SHARED in state for state in states)


def _shared_positions(states: Sequence[Parts]) -> Parts:
    """Return the positions that any receiver had accepted, and those that any had secured."""
    parts = [part for part in (POSITIONS, SECURED) if all(part in state for state in states)]
    return {part: Positions.restored(state[part] for state in states).snapshot() for part in parts}


def _components(topology: Topology, mine: Collection[str]) -> list[Component]:
    return [component for component in topology.components if not set(component.instances()).isdisjoint(mine)]


def _of(component: str, instances: Collection[str]) -> set[str]:
    return {name for name in instances if name.rpartition("#")[0] == component}


def _is_rescaled(component: Component, before: Collection[str]) -> bool:
    return component.kind == PROCESSOR and bool(before) and set(before) != set(component.instances())
