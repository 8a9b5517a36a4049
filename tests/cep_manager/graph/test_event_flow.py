"""The event flow of a tenant, from snapshots of a made-up cluster."""

import msgspec
from manager_world import COMPILED, KEY, LEASE_MS, World, plan

from cep_common.ids import PlanKey
from cep_common.protocol.registry import Connector, StreamBinding
from cep_manager.graph.event_flow import EventFlow, FlowNode, event_flow
from cep_manager.plans.compiled_plan import CompiledPlan


def flow(world: World, tenant: int = KEY.tenant) -> EventFlow:
    return event_flow(world.snapshot(), tenant)


def node(found: EventFlow, id_: str) -> FlowNode:
    return next(one for one in found.nodes if one.id == id_)


def alerts(key: str = "Alerts") -> CompiledPlan:
    """A plan that imports what `COMPILED` imports as well, and what it exports."""
    return msgspec.structs.replace(
        COMPILED,
        name=key,
        imported=(COMPILED.imported[0], StreamBinding("In", "KnockOns:1.0.0", (("tailnum", "string"),))),
        exported=(StreamBinding("Out", "Alerts:1.0.0", ()),),
        sources=(Connector("In", "kafka", {"topic": "secret"}, "json", {}),),
        sinks=(Connector("Out", "http", {}, "", {}), Connector("Out", "log", {}, "", {})),
    )


def test_streams_stand_between_plans_and_their_ends() -> None:
    world = World()
    world.active(events=1_000)
    found = flow(world)
    assert {one.kind: one.layer for one in found.nodes} == {"stream": 3, "plan": 2}
    assert node(found, "imported:Departures:1.0.0").events == 1_000
    assert node(found, "exported:KnockOns:1.0.0").events == 100
    assert (node(found, "plan:Storms").events, node(found, "plan:Storms").emitted) == (1_500, 110)
    assert ("imported:Departures:1.0.0", "plan:Storms") in {(one.source, one.target) for one in found.edges}


def test_plans_share_streams_on_the_same_side_and_feed_each_other_from_one_side_to_the_other() -> None:
    world = World()
    world.active(events=1_000)
    world.put(plan(key=PlanKey(KEY.tenant, "Alerts"), compiled=alerts()))
    found = flow(world)
    into = [(one.source, one.connected) for one in found.edges if one.target == "plan:Alerts"]
    assert into == [("imported:Arrivals:1.0.0", False), ("imported:KnockOns:1.0.0", False)]
    assert node(found, "imported:Arrivals:1.0.0").state == "live"
    assert {one.id for one in found.nodes if "KnockOns" in one.id} == {
        "imported:KnockOns:1.0.0",
        "exported:KnockOns:1.0.0",
    }
    ends = [(one.label, one.layer, one.words) for one in found.nodes if one.kind in ("source", "sink")]
    assert ends == [("kafka", 5, "json"), ("http", 9, ""), ("log", 9, "")]
    assert (node(found, "plan:Storms").layer, node(found, "plan:Alerts").layer) == (2, 7)
    assert node(found, "imported:Arrivals:1.0.0").layer == 1, "in front of the first plan that imports it"
    (feed,) = (one for one in found.edges if one.source == "exported:KnockOns:1.0.0")
    assert (feed.target, feed.connected, feed.events) == ("imported:KnockOns:1.0.0", False, None)
    assert b"secret" not in msgspec.json.encode(found)


def test_a_plan_that_waits_or_cannot_be_compiled_is_shown_as_such() -> None:
    world = World()
    world.active()
    world.put(plan(key=PlanKey(KEY.tenant, "Broken"), compiled="nothing can be made of it"))
    world.tick(LEASE_MS)
    found = flow(world)
    assert (node(found, "plan:Broken").state, node(found, "plan:Broken").words) == ("silent", "failed")
    assert node(found, "plan:Storms").words != "active"


def test_a_tenant_sees_its_own_flow_only() -> None:
    world = World()
    world.active()
    assert flow(world, 7) == EventFlow(7, (), ())


def in_memory(name: str, takes: str, gives: str) -> CompiledPlan:
    """A plan between two topics; neither of its streams has a name outside."""
    return msgspec.structs.replace(
        COMPILED,
        name=name,
        imported=(StreamBinding("In", "In", ()),),
        exported=(StreamBinding("Out", "Out", ()),),
        sources=(Connector("In", "inMemory", {"topic": takes}, "", {}),),
        sinks=(Connector("Out", "inMemory", {"topic": gives}, "", {}),),
    )


def test_sinks_and_sources_of_a_topic_are_joined_and_a_circle_begins_somewhere() -> None:
    world = World()
    for name, takes, gives in (("C", "b", "a"), ("B", "a", "b"), ("A", "x", "a"), ("D", "a", "a")):
        world.put(plan(key=PlanKey(KEY.tenant, name), compiled=in_memory(name, takes, gives)))
    found = flow(world)
    joined = {(one.source, one.target) for one in found.edges if one.source.startswith("sink")}
    assert joined == {
        ("sink:A:Out:0", "source:B:In:0"),
        ("sink:A:Out:0", "source:D:In:0"),
        ("sink:B:Out:0", "source:C:In:0"),
        ("sink:C:Out:0", "source:B:In:0"),
        ("sink:C:Out:0", "source:D:In:0"),
        ("sink:D:Out:0", "source:B:In:0"),
        ("sink:D:Out:0", "source:D:In:0"),
    }
    assert {one.label: one.layer for one in found.nodes if one.kind == "plan"} == {"A": 2, "B": 7, "C": 12, "D": 17}
    assert not any(one.target.startswith("imported") for one in found.edges if one.source.startswith("exported"))


def test_a_plan_that_feeds_itself_stands_in_front_of_those_that_it_feeds() -> None:
    world = World()
    for name, takes, gives in (("Aggregate", "x", "z"), ("Loop", "x", "x")):
        world.put(plan(key=PlanKey(KEY.tenant, name), compiled=in_memory(name, takes, gives)))
    assert {one.label: one.layer for one in flow(world).nodes if one.kind == "plan"} == {"Loop": 2, "Aggregate": 7}
