"""What each instance of a topology begins from, given the states of the topology that was there before. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from topology.model import PUBLISHER, RECEIVER, Topology
from topology.positions import Positions
from topology.stages.contract import Parts
from topology.stages.receiver import POSITIONS


def wanted(topology: Topology, mine: Collection[str], former: Collection[str]) -> set[str]:
    """Which of the `former` instances' states are needed to open the instances `mine`."""
    names: set[str] = set()
    for name in mine:
        names |= {one for one in former if one == name or _shares_positions(topology, name, one)}
    return names


def beginnings(topology: Topology, mine: Collection[str], former: Mapping[str, Parts]) -> dict[str, Parts]:
    """The states from which the instances `mine` begin. A worker may come to any receiver, so each of them gets what
    all receivers had taken. Raises TopologyError when a state cannot be read."""
    found: dict[str, Parts] = {}
    for name in mine:
        shared = [former[one][POSITIONS] for one in sorted(former) if _shares_positions(topology, name, one)]
        if shared:
            found[name] = {POSITIONS: Positions.restored(shared).snapshot()}
        elif name in former:
            found[name] = former[name]
    return found


def keeps_state(topology: Topology, name: str) -> bool:
    """True for instances whose state matters when another topology takes over."""
    return topology.component(name.rpartition("#")[0]).kind != PUBLISHER


def _shares_positions(topology: Topology, name: str, former: str) -> bool:
    component = name.rpartition("#")[0]
    return topology.component(component).kind == RECEIVER and former.rpartition("#")[0] == component
