"""Storm's operations on topologies, as commands to the manager."""

from __future__ import annotations

from typing import Any

import msgspec

from cep_manager.monitoring.storm_topology.errors import StormRequestError
from cep_manager.monitoring.storm_topology.model import StormTopology, topology
from cep_manager.plans.stored_plan import SettingsPatch
from cep_manager.web.ports import ManagerView
from cep_manager.web.storm_api.kills import Kills

LONGEST_WAIT_S = 86_400


class RebalanceOptions(msgspec.Struct, frozen=True, rename="camel"):
    """What may be asked for; the parallelism of stages is in the plan's text."""

    num_workers: int | None = None
    executors: dict[str, int] = {}


class StormRebalance(msgspec.Struct, frozen=True, rename="camel"):
    """The body of a rebalance request."""

    rebalance_options: RebalanceOptions = RebalanceOptions()


class StormOperations:
    """What can be done to a topology. Each gives Storm's answer, and raises what the manager raises."""

    def __init__(self, view: ManagerView) -> None:
        self._view = view
        self.kills = Kills(self._undeploy)

    def activate(self, found: StormTopology) -> dict[str, Any]:
        """Open the topology's intake of events."""
        self._view.change_settings(found.key, SettingsPatch(intake=True))
        return _done(found, "activate")

    def deactivate(self, found: StormTopology) -> dict[str, Any]:
        """Close the topology's intake of events."""
        self._view.change_settings(found.key, SettingsPatch(intake=False))
        return _done(found, "deactivate")

    def rebalance(self, found: StormTopology, body: bytes) -> dict[str, Any]:
        """Run the topology on another number of workers as soon as there are enough slots.

        Without a number nothing changes: tasks need no new places, since Spark gives a topology all its slots or none.
        The topology keeps running meanwhile, so there is nothing to wait for.
        """
        options = _read_options(body)
        if options.executors:
            raise StormRequestError(
                "the parallelism of a stage is set in the plan: deploy the plan with another @dist(parallel='…')"
            )
        if options.num_workers is not None:
            self._view.rebalance(found.key, options.num_workers)
        return _done(found, "rebalance")

    def kill(self, found: StormTopology, wait_s: int) -> dict[str, Any]:
        """Close the topology's intake and undeploy it after `wait_s` seconds."""
        if wait_s > LONGEST_WAIT_S:
            raise StormRequestError(f"the wait must be at most {LONGEST_WAIT_S} seconds, not {wait_s}")
        if wait_s:
            self._view.change_settings(found.key, SettingsPatch(intake=False))
            self.kills.after(found.identifier, wait_s)
        else:
            self.kills.now(found.identifier)
        return _done(found, "kill")

    def debug(self, found: StormTopology, action: str) -> dict[str, Any]:
        """Turn the logging of the topology's events by workers on or off."""
        self._view.change_settings(found.key, SettingsPatch(trace=action == "enable"))
        return _done(found, f"debug/{action}")

    def _undeploy(self, identifier: str) -> None:
        self._view.undeploy(topology(self._view.overview(), identifier, frozenset()).key)


def _done(found: StormTopology, operation: str) -> dict[str, Any]:
    return {"topologyOperation": operation, "topologyId": found.identifier, "status": "success"}


def _read_options(body: bytes) -> RebalanceOptions:
    if not body.strip():
        return RebalanceOptions()
    try:
        return msgspec.json.decode(body, type=StormRebalance).rebalance_options
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StormRequestError(f'the body must be {{"rebalanceOptions": {{"numWorkers": n}}}}: {error}') from error
