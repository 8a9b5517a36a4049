"""CEP 2.0's runtime configuration: state kept in a store by time, or in several instances."""

from __future__ import annotations

import pytest

from query_plan.builder import build
from query_plan.errors import QueryPlanError
from query_plan.model import QueryPlan
from query_plan.xml import read_checkpoint_interval, read_checkpoints_kept, read_xml, write_xml
from siddhi.analysis.analyser import analyse
from siddhi.language.parser import parse

TEXT = """@Plan:name('P') {header}
@Import('A:1.0.0') define stream A (key string, temp double);
@Export('B:1.0.0') define stream B (key string, whole double);
{definitions}
from A#window.length(5) select key, sum(temp) as whole insert into B;
from every e1=A, e2=A[e1.temp < temp] select e2.key, e1.temp as whole insert into B;
"""
CONFIG = (
    "@Plan:config(siddhi.persistence.snapshot.time.interval.minutes='{}', siddhi.enable.distributed.processing='{}')"
)


def plan_of(header: str, definitions: str = "") -> QueryPlan:
    return build(analyse(parse(TEXT.format(header=header, definitions=definitions))))


@pytest.mark.parametrize(("minutes", "interval_ms"), [(0, 0), (1, 60_000), (5, 300_000)])
def test_a_plan_has_its_own_interval_of_checkpoints(minutes: int, interval_ms: int) -> None:
    plan = plan_of(CONFIG.format(minutes, "false"))
    assert [(stage.name, stage.parallel, stage.sync) for stage in plan.processors] == [("P", 1, "")]
    text = write_xml(plan)
    assert read_checkpoint_interval(text) == interval_ms
    assert read_xml(text) == plan


def test_a_plan_that_says_nothing_follows_the_driver() -> None:
    assert read_checkpoint_interval(write_xml(plan_of(""))) is None


def test_a_plan_has_its_own_number_of_checkpoints_that_are_kept() -> None:
    kept = "@Plan:config(siddhi.persistence.snapshot.revisions.to.keep='{}')"
    plan = plan_of(kept.format(7))
    text = write_xml(plan)
    assert (plan.checkpoints_kept, read_checkpoints_kept(text)) == (7, 7)
    assert read_xml(text) == plan
    assert read_checkpoints_kept(write_xml(plan_of(""))) is None
    for wrong in ("0", "-1", "many", "1001"):
        with pytest.raises(QueryPlanError, match="is not a whole number from 1 to 1000"):
            plan_of(kept.format(wrong))


@pytest.mark.parametrize(("dist", "instances"), [("", 2), ("@Plan:dist(workers='4')", 4)])
def test_distributed_processing_makes_the_plan_one_group_with_shared_state(dist: str, instances: int) -> None:
    definitions = "define aggregation G from A select key, sum(temp) as whole group by key aggregate every sec ... day;"
    plan = plan_of(f"{dist} {CONFIG.format(0, 'true')}", definitions)
    roles = [(stage.name, stage.parallel, stage.sync) for stage in plan.processors]
    assert roles == [("P.entry", instances, "entry"), ("P.log", 1, "log"), ("P", instances, "replica")]
    assert plan.checkpoint_interval_ms is None


def test_an_aggregation_is_kept_in_every_instance_of_the_group_that_reads_it() -> None:
    text = """@app:name('P')
define stream A (ts long, key string, temp double);
@sink(type='log') define stream B (key string, whole double);
define aggregation G from A select key, sum(temp) as whole group by key aggregate every sec ... day;
@info(name='q') @dist(execGroup='g', parallel='3', state='shared')
from A as a join G as g on a.key == g.key within '2026-**-** **:**:**' per 'seconds'
select a.key as key, g.whole as whole insert into B;
"""
    stages = build(analyse(parse(text))).processors
    assert [(stage.name, stage.parallel) for stage in stages] == [("g.entry", 3), ("g.log", 1), ("g", 3)]
    assert [one.id for one in stages[2].aggregations] == ["G"]
