"""Routing of a component's bundles to the instances of its consumers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from siddhi.scripts.language import ScriptPolicy, ScriptRunner
from topology.events.bundle import Bundle
from topology.grouping import KeySharer, split
from topology.model import PROCESSOR, Component, Consumer, Topology
from topology.stages.contract import Emit
from topology.stages.routes.partition_keys import ComputedKeys

Deliver = Callable[[str, Bundle], None]
"""Delivers a bundle to an instance in any task."""


class Routing:
    """Distributes events as the query plan says; `deliver` knows where instances run."""

    def __init__(
        self, topology: Topology, scripts: ScriptPolicy, deliver: Deliver, script_runner: ScriptRunner | None = None
    ) -> None:
        self._topology = topology
        self._scripts = scripts
        self._script_runner = script_runner
        self._deliver = deliver

    def emitter(self, component: Component) -> Emit:
        """Return the function to which instances of `component` pass their bundles; each consumer gets its share."""
        consumers = tuple((consumer, self._keys(consumer)) for consumer in self._topology.consumers(component))

        def emit(bundle: Bundle) -> None:
            for consumer, keys in consumers:
                if bundle.checkpoint:
                    self._mark(consumer, bundle)
                else:
                    self._share(consumer, keys, bundle)

        return emit

    def _keys(self, consumer: Consumer) -> dict[str, KeySharer]:
        """Return what computes the keys by which the instances of `consumer` share streams."""
        if consumer.component.kind != PROCESSOR or consumer.component.parallel == 1:
            return {}
        plan = self._topology.plan
        stage = plan.processor(consumer.component.name)
        return {
            one.stream.id: ComputedKeys(plan, stage, one, self._scripts, self._script_runner)
            for one in stage.inputs
            if one.grouping.partition is not None and one.stream.id in consumer.groupings
        }

    def _mark(self, consumer: Consumer, marker: Bundle) -> None:
        """Send a marker to every instance, which needs those of all its producers."""
        for target in consumer.component.instances():
            self._deliver(target, marker)

    def _share(self, consumer: Consumer, keys: Mapping[str, KeySharer], bundle: Bundle) -> None:
        if not any(stream in consumer.groupings for stream in bundle.streams):
            if not consumer.every_ticket:
                return
            bundle = replace(bundle, channel="", streams=(), batches=())
        targets = consumer.component.instances()
        shares = split(bundle, consumer.groupings, len(targets), consumer.every_instance, keys)
        for target, share in zip(targets, shares, strict=True):
            if share is not None:
                self._deliver(target, share)
