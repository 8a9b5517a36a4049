"""A folder of plans is deployed, changed and removed as one change: all of it, or nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from free_ports import free_port
from test_manager_process import PLAN

from cep_common.ids import SUPER_TENANT, PlanKey
from cep_manager.config import (
    AccountsConfig,
    ControlConfig,
    DatabaseConfig,
    KafkaConfig,
    ManagerConfig,
    ManagerHttpConfig,
    QuotasConfig,
)
from cep_manager.errors import BadRequestError, ManagerUnavailableError, PlanExistsError, PlanStoreError
from cep_manager.main import ManagerProcess
from cep_manager.plans.batch import PlanBatch
from cep_manager.plans.folder import origin_of
from cep_manager.plans.rule_sets.model import RuleFile, RuleSetRefusedError, RuleSetReport, UnknownRuleSetError
from cep_manager.plans.rule_sets.origin import parse_rule_origin
from cep_manager.plans.store import PlanStore

SET = "weather"


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ManagerProcess]:
    folder = tmp_path_factory.mktemp("rules")
    config = ManagerConfig(
        accounts=AccountsConfig(login=False),
        control=ControlConfig(port=free_port()),
        http=ManagerHttpConfig(port=free_port()),
        database=DatabaseConfig(url=f"sqlite:///{folder / 'manager.db'}"),
        quotas=QuotasConfig(plans=5),
    )
    made = ManagerProcess(config)
    yield made
    made.close()


@pytest.fixture(autouse=True)
def _nothing_is_left(process: ManagerProcess) -> Iterator[None]:
    yield
    for plan in process.service.snapshot().plans:
        process.manager.undeploy(plan, discard=True)


def rule(plan: str, limit: int = 60, file: str = "", more: str = "") -> RuleFile:
    text = PLAN.replace("'Storms'", f"'{plan}'").replace("60", str(limit)) + more
    return RuleFile(file or f"{plan}.siddhiql", text)


def deploy(process: ManagerProcess, *files: RuleFile, name: str = SET, **how: bool) -> RuleSetReport:
    return process.manager.deploy_rules(SUPER_TENANT, name, files, "rev", **how)


def done(report: RuleSetReport) -> dict[str, str]:
    return {one.plan: one.action for one in report.changes}


def texts(process: ManagerProcess) -> dict[str, str]:
    """What is in the plan store, which is what the control loop knows."""
    stored = {one.key.plan: one.text for one in process.service.store.plans()}
    known = {key.plan: record.target()[0] for key, record in process.service.snapshot().plans.items()}
    assert stored == known
    return stored


def key(plan: str) -> PlanKey:
    return PlanKey(SUPER_TENANT, plan)


def test_plans_come_change_and_go_with_their_files(process: ManagerProcess) -> None:
    a, b, c = rule("A"), rule("B"), rule("C")
    assert done(deploy(process, a, b)) == {"A": "add", "B": "add"}
    report = deploy(process, a, rule("B", 90), c)
    assert done(report) == {"A": "keep", "B": "update", "C": "add"}
    assert texts(process) == {"A": a.text, "B": rule("B", 90).text, "C": c.text}
    report = deploy(process, c)
    assert (done(report), report.counts["remove"]) == ({"A": "remove", "B": "remove", "C": "keep"}, 2)
    assert texts(process) == {"C": c.text}
    assert done(process.manager.remove_rules(SUPER_TENANT, SET)) == {"C": "remove"}
    with pytest.raises(UnknownRuleSetError):
        process.manager.remove_rules(SUPER_TENANT, SET)


def test_the_origin_and_revision_of_a_plan_are_kept(process: ManagerProcess) -> None:
    deploy(process, rule("A", file="x/a.siddhiql"))
    assert done(deploy(process, rule("A", file="y/a.siddhiql"))) == {"A": "keep"}
    (stored,) = process.service.store.plans()
    origin = parse_rule_origin(stored.settings.origin)
    assert origin is not None
    assert (origin.rule_set, origin.file, origin.revision) == (SET, "y/a.siddhiql", "rev")
    assert process.service.snapshot().plans[key("A")].stored.settings.origin == stored.settings.origin
    (summary,) = process.manager.rule_sets(SUPER_TENANT)
    assert (summary.rule_set, summary.plans) == (SET, 1)


def test_a_dry_run_changes_nothing_and_reports_the_same(process: ManagerProcess) -> None:
    deploy(process, rule("A"), rule("B"))
    before = process.service.store.plans()
    wanted = (rule("A", 90), rule("C"))
    dry = deploy(process, *wanted, dry_run=True)
    assert not dry.applied
    assert process.service.store.plans() == before
    real = deploy(process, *wanted)
    assert real.applied
    assert dry.changes == real.changes


def test_one_wrong_plan_and_nothing_is_changed(process: ManagerProcess) -> None:
    deploy(process, rule("A"))
    before = process.service.store.plans()
    with pytest.raises(RuleSetRefusedError) as caught:
        deploy(process, rule("A", 90), rule("B"), rule("C", more="from Nowhere select x insert into Late;"))
    (problem,) = caught.value.report.problems
    assert (problem.file, problem.code) == ("C.siddhiql", "plan-invalid")
    assert problem.problems[0].line > 1
    assert process.service.store.plans() == before


def test_the_quota_holds_for_all_plans_together(process: ManagerProcess) -> None:
    with pytest.raises(RuleSetRefusedError) as caught:
        deploy(process, *(rule(f"P{number}") for number in range(6)))
    assert [one.code for one in caught.value.report.problems] == ["over-quota"]
    assert texts(process) == {}


def test_paths_are_compared_as_they_will_be(process: ManagerProcess) -> None:
    def at(plan: str, path: str) -> RuleFile:
        source = f"@source(type='http', receiver.url='http://0.0.0.0:8080/{path}', @map(type='json'))\n"
        made = rule(plan)
        return RuleFile(made.file, made.text.replace("@Import('Departures:1.0.0')\n", source))

    deploy(process, at("A", "one"), at("B", "two"))
    assert done(deploy(process, at("A", "two"), at("B", "one"))) == {"A": "update", "B": "update"}
    with pytest.raises(RuleSetRefusedError) as caught:
        deploy(process, at("A", "three"), at("B", "three"))
    assert {one.code for one in caught.value.report.problems} == {"plan-invalid"}


@pytest.mark.thorough
def test_plans_of_others_are_neither_taken_over_nor_removed(process: ManagerProcess) -> None:
    by_hand, file, other = rule("Hand"), rule("File"), rule("Other")
    process.manager.deploy(SUPER_TENANT, by_hand.text, replace=False)
    process.manager.file_plans.deploy_file(SUPER_TENANT, file.text, origin_of("File.siddhiql", b""), ["File.siddhiql"])
    deploy(process, other, name="another")
    with pytest.raises(RuleSetRefusedError) as caught:
        deploy(process, by_hand, file, other, rule("Own"))
    said = {one.plan: one.message for one in caught.value.report.problems}
    assert "by hand" in said["Hand"]
    assert "watched folder" in said["File"]
    assert "another" in said["Other"]
    deploy(process, rule("Own"))
    process.manager.remove_rules(SUPER_TENANT, SET)
    assert texts(process).keys() == {"Hand", "File", "Other"}


def test_the_watched_folder_leaves_plans_of_rule_sets_alone(process: ManagerProcess) -> None:
    mine = rule("A")
    deploy(process, mine)
    assert process.manager.file_plans.origins() == {key("A"): None}
    with pytest.raises(PlanExistsError, match="rule set weather"):
        process.manager.file_plans.deploy_file(SUPER_TENANT, mine.text, origin_of("A.siddhiql", b""), ["A.siddhiql"])


def test_a_folder_without_plans_removes_nothing(process: ManagerProcess) -> None:
    deploy(process, rule("A"))
    with pytest.raises(BadRequestError, match="cep rules remove"):
        deploy(process)
    assert texts(process).keys() == {"A"}


def test_a_plan_that_changes_its_name_in_its_file_is_renamed(process: ManagerProcess) -> None:
    deploy(process, rule("A"), rule("B"))
    identity = process.service.snapshot().plans[key("A")].key.identity
    renamed = rule("C", 90, file="A.siddhiql")
    report = deploy(process, renamed, rule("B"))
    assert done(report) == {"C": "rename", "B": "keep"}
    assert [one.former for one in report.changes] == ["", "A"]
    assert done(deploy(process, renamed, rule("A", 5, file="new.siddhiql"))) == {"C": "keep", "A": "add", "B": "remove"}
    plans = {one.plan: one.identity for one in process.service.snapshot().plans}
    assert plans["C"] == identity != plans["A"]
    assert texts(process)["C"] == rule("C", 90).text


def test_two_files_of_one_name_are_refused(process: ManagerProcess) -> None:
    with pytest.raises(RuleSetRefusedError, match="choose another name"):
        deploy(process, rule("A"), rule("A", 90, file="other.siddhiql"))
    with pytest.raises(BadRequestError, match="twice"):
        deploy(process, rule("A"), rule("A"))


def test_without_removal_plans_stay_whose_files_have_gone(process: ManagerProcess) -> None:
    deploy(process, rule("A"), rule("B"))
    assert done(deploy(process, rule("B"), removes=False)) == {"B": "keep"}
    assert texts(process).keys() == {"A", "B"}


def test_what_was_changed_by_hand_is_changed_back(process: ManagerProcess) -> None:
    deploy(process, rule("A"))
    process.manager.deploy(SUPER_TENANT, rule("A", 5).text, replace=True)
    assert done(deploy(process, rule("A"))) == {"A": "update"}
    assert texts(process) == {"A": rule("A").text}


def test_a_plan_that_is_being_undeployed_is_kept_after_all(process: ManagerProcess) -> None:
    deploy(process, rule("A"))
    known = process.manager.plan_key(SUPER_TENANT, "A")  # another plan may have had the name before
    process.service.store.set_draining(known, ("worker-1",))
    process.service.drain_plan(known, ("worker-1",))
    assert done(deploy(process, rule("A", 90))) == {"A": "activate"}
    (stored,) = process.service.store.plans()
    assert (stored.draining, stored.text) == (None, rule("A", 90).text)


def test_nothing_stays_when_the_database_fails_at_the_end(
    process: ManagerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    deploy(process, rule("A"))
    before = process.service.store.plans()
    whole = PlanBatch.write

    def fail(self: PlanBatch, store: object) -> None:
        whole(self, store)  # type: ignore[arg-type] # the connection is passed on
        raise PlanStoreError("the disk is full")

    monkeypatch.setattr(PlanBatch, "write", fail)
    with pytest.raises(PlanStoreError):
        deploy(process, rule("A", 90), rule("B"))
    assert process.service.store.plans() == before
    assert texts(process) == {"A": rule("A").text}


def test_a_plan_that_changed_meanwhile_is_not_overwritten(
    process: ManagerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    deploy(process, rule("A"))
    raised: list[int] = []
    whole = PlanBatch.write

    def write(self: PlanBatch, store: object) -> None:
        if not raised:
            connection = store
            raised.append(1)
            connection.exec_driver_sql("UPDATE cep_plans SET epoch = 17")  # type: ignore[attr-defined]
        whole(self, store)  # type: ignore[arg-type]

    monkeypatch.setattr(PlanBatch, "write", write)
    assert done(deploy(process, rule("A", 90))) == {"A": "update"}
    assert len(raised) == 1


def test_who_cannot_be_told_is_not_told_half(process: ManagerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: PlanStore, *arguments: object, **more: object) -> None:
        raise ManagerUnavailableError("the store's thread is busy")

    deploy(process, rule("A"))
    monkeypatch.setattr(PlanStore, "change", refuse)
    with pytest.raises(ManagerUnavailableError):
        deploy(process, rule("B"), rule("A", 90))
    assert texts(process) == {"A": rule("A").text}


def test_topics_are_made_only_by_a_change_that_is_made(
    process: ManagerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    class Cluster:
        def partitions(self) -> dict[str, int]:
            return {}

        def create(self, topics: dict[str, int]) -> tuple[str, ...]:
            made.extend(topics)
            return ()

    changes = process.manager._changes
    monkeypatch.setattr(changes.compilers, "_kafka", KafkaConfig("broker:9092"))
    monkeypatch.setattr(changes._topics, "_cluster", Cluster())
    text = "@App:name('K') @App:transport('kafka') define stream S (v int); from S select v insert into O;"
    carried, wrong = RuleFile("k.siddhiql", text), RuleFile("w.siddhiql", "define stream")
    deploy(process, carried, dry_run=True)
    with pytest.raises(RuleSetRefusedError):
        deploy(process, carried, wrong)
    assert made == []
    deploy(process, carried)
    assert sorted(made) == ["K.O", "K.S"]
