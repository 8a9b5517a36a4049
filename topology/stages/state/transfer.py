"""The transfer of a task's state between topologies.

former topology   ""  ─ pause, all is processed ─▶  quiet  ─ give ─▶  given
next topology     ""  ─ its states are brought ──▶  restored  ─ work ─▶  ""
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from cep_common.protocol.tasks import StateTransfer, TaskOrder
from siddhi.errors import SnapshotError
from siddhi.scripts.language import ScriptPolicy
from topology.errors import STATE_UNREADABLE, TopologyError
from topology.model import Topology
from topology.stages.contract import Parts
from topology.stages.kinds.processor import Processor
from topology.stages.state.restoring import initial_states, keeps_state, wanted


class StateHolder(Protocol):
    """An instance of a stage whose state can be read."""

    def snapshot(self) -> Parts:
        """Return its state."""


class TaskState:
    """The initial states of a task's instances, and the states that they transfer to a later topology.

    The control thread uses `bring` and the attributes, the task's own thread `give` and `finish`.
    """

    def __init__(
        self,
        topology: Topology,
        instances: Mapping[str, StateHolder],
        processors: Collection[Processor],
        scripts: ScriptPolicy,
    ) -> None:
        self._topology = topology
        self._instances = instances
        self._processors = processors
        self._scripts = scripts
        self._left: tuple[str, ...] = ()
        self.step: StateTransfer = ""
        """The progress of the transfer of the task's state to or from another topology."""
        self.given: Mapping[str, Parts] = {}
        """The transferred states, by instance, once `step` reports them."""
        self.brought: Mapping[str, Parts] | None = None
        """The initial states by instance; None: no state was transferred."""

    def keepers(self) -> tuple[str, ...]:
        """Return the instances whose state is needed when another topology takes over."""
        return tuple(name for name in self._instances if keeps_state(self._topology, name))

    def wants(self, former: Collection[str]) -> set[str]:
        """Return which of the `former` instances' states are needed to continue from them."""
        return wanted(self._topology, self.keepers(), former)

    def bring(self, former: Mapping[str, Parts]) -> None:
        """Accept the states of a former topology that the task `wants`, before it starts.

        Raises:
            TopologyError: They cannot be read.
        """
        try:
            begins = initial_states(self._topology, self.keepers(), former, self._scripts)
        except SnapshotError as error:
            raise TopologyError(STATE_UNREADABLE, f"the state of stages cannot be read: {error}") from error
        self.brought, self._left = begins.states, begins.left

    def left(self) -> tuple[str, ...]:
        """Return descriptions, for users, of state that the instances could not use."""
        return (*self._left, *(text for processor in self._processors for text in processor.left))

    def give(self, order: TaskOrder, *, quiet: bool) -> None:
        """Snapshot the states once the task is `quiet` and is ordered to transfer them.

        What other tasks still send here counts as in flight there, so a task that is quiet stays so.
        """
        if self.step in ("", "restored") and quiet:
            self.step = "quiet"
        if self.step == "quiet" and order == "give":
            self.given = {name: self._instances[name].snapshot() for name in self.keepers()}
            self.step = "given"

    def finish(self) -> None:
        """Discard the transferred state: the task runs, or keeps running."""
        self.step, self.given = "", {}
