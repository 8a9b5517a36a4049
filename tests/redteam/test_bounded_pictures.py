"""Pictures of plans with very many instances stay small, and no tenant takes all places to watch them."""

from __future__ import annotations

import time

import msgspec
import pytest

from cep_common.ids import PlanKey
from cep_manager.authoring.compiler import compile_plan
from cep_manager.errors import StreamsBusyError
from cep_manager.graph.stages import MOST_EDGES
from cep_manager.graph.topology_graph import planned_graph
from cep_manager.live.broadcaster import Broadcaster
from siddhi.scripts.language import ScriptPolicy

MANY = """@Plan:name('P') @Plan:dist(receiverParallelism='{n}', publisherParallelism='{n}')
define stream S (a int);
@dist(parallel='{n}') from S select a insert into O;
"""


def graph(instances: int):
    return planned_graph(PlanKey(1, "P"), compile_plan(MANY.format(n=instances), ScriptPolicy()))


def test_a_picture_of_very_many_instances_shows_the_first_of_each_stage() -> None:
    began = time.process_time()
    found = graph(341)
    assert time.process_time() - began < 2
    stages = [node for node in found.nodes if node.component]
    assert len(found.edges) <= MOST_EDGES + len(found.nodes)
    assert found.hidden_instances == 3 * 341 - len(stages) > 0
    assert len({node.component for node in stages}) == 3
    assert len(msgspec.json.encode(found)) < 4_000_000
    known = {node.id for node in found.nodes}
    assert all(edge.source in known and edge.target in known for edge in found.edges)


def test_a_picture_of_few_shows_all() -> None:
    found = graph(8)
    assert found.hidden_instances == 0
    assert len([edge for edge in found.edges if edge.source.startswith("EventReceiver")]) == 64


def test_a_tenant_leaves_places_to_others() -> None:
    broadcaster = Broadcaster(8)
    try:
        for number in range(6):
            broadcaster.watch(("plan", PlanKey(7, f"P{number}")), dict)
        with pytest.raises(StreamsBusyError):
            broadcaster.watch(("overview", 7, False), dict)
        for number in range(2):
            broadcaster.watch(("overview", 8, number == 0), dict)
    finally:
        broadcaster.close()
