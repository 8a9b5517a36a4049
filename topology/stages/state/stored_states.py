"""The stored form of instances' states: one entry for each part, named `instance/part`."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from topology.checkpoint.model import Manifest
from topology.checkpoint.storage.store import CheckpointStore, read_state
from topology.stages.contract import Parts


def flat(states: Mapping[str, Parts]) -> dict[str, bytes]:
    """Return the parts of all instances, by `instance/part`."""
    return {f"{instance}/{part}": state for instance, parts in states.items() for part, state in parts.items()}


def instances(manifest: Manifest) -> set[str]:
    """Return the instances of which `manifest` has a state."""
    return {_divided(state.instance)[0] for state in manifest.states}


def read(store: CheckpointStore, manifest: Manifest, wanted: Collection[str]) -> dict[str, Parts]:
    """Return the states of the instances `wanted`. Raise CheckpointError when one cannot be read."""
    found: dict[str, dict[str, bytes]] = {}
    for state in manifest.states:
        instance, part = _divided(state.instance)
        if instance in wanted:
            found.setdefault(instance, {})[part] = read_state(store, manifest, state.instance)
    return dict(found)


def _divided(name: str) -> tuple[str, str]:
    instance, _, part = name.rpartition("/")
    return instance, part
