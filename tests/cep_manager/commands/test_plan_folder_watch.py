"""A watched folder on a real manager: files come, change, are wrong, and go."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from free_ports import free_port
from test_manager_process import PLAN, eventually

from cep_common.ids import SUPER_TENANT, PlanKey
from cep_manager.commands import folder_watch
from cep_manager.commands.folder_watch import LARGEST_BYTES, PlanFolderWatch
from cep_manager.config import (
    AccountsConfig,
    ControlConfig,
    DatabaseConfig,
    ManagerConfig,
    ManagerHttpConfig,
    PlanFolderConfig,
    QuotasConfig,
)
from cep_manager.errors import KafkaUnavailableError
from cep_manager.main import ManagerProcess

NAME = "Storms"
OTHER = PLAN.replace("60", "90")


def named(text: str, name: str) -> str:
    return text.replace(f"'{NAME}'", f"'{name}'")


@pytest.fixture
def config(tmp_path: Path) -> ManagerConfig:
    return ManagerConfig(
        accounts=AccountsConfig(login=False),
        control=ControlConfig(port=free_port()),
        http=ManagerHttpConfig(port=free_port()),
        database=DatabaseConfig(url=f"sqlite:///{tmp_path / 'manager.db'}"),
        quotas=QuotasConfig(plans=2),
    )


@pytest.fixture
def process(config: ManagerConfig) -> Iterator[ManagerProcess]:
    made = ManagerProcess(config)
    yield made
    made.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "plans"
    made.mkdir()
    return made


def watch(folder: Path, process: ManagerProcess) -> PlanFolderWatch:
    return PlanFolderWatch(PlanFolderConfig(str(folder)), process.manager.file_plans)


def look(watching: PlanFolderWatch) -> None:
    """As often as a change needs to act."""
    for _ in range(3):
        watching.look()


def texts(process: ManagerProcess, tenant: int = SUPER_TENANT) -> dict[str, str]:
    """What the tenant's plans are, or are to be as soon as that runs."""
    plans = process.service.snapshot().plans
    return {key.plan: record.target()[0] for key, record in plans.items() if key.tenant == tenant}


def write(path: Path, text: str) -> None:
    """The file has `text`, and a time of change that no earlier writing had."""
    before_ns = path.stat().st_mtime_ns if path.exists() else 0
    path.write_text(text)
    os.utime(path, ns=(before_ns + 1_000_000, before_ns + 1_000_000))


def test_files_deploy_change_and_undeploy_plans_of_their_tenants(folder: Path, process: ManagerProcess) -> None:
    watching = watch(folder, process)
    write(folder / "storms.siddhiql", PLAN)
    (folder / "7").mkdir()
    write(folder / "7" / "storms.siddhiql", OTHER)
    write(folder / "notes.txt", "no plan")
    look(watching)
    assert (texts(process), texts(process, 7)) == ({NAME: PLAN}, {NAME: OTHER})
    write(folder / "storms.siddhiql", OTHER)
    look(watching)
    assert texts(process) == {NAME: OTHER}
    (folder / "storms.siddhiql").unlink()
    look(watching)
    assert (texts(process), texts(process, 7)) == ({}, {NAME: OTHER})


def test_a_wrong_file_is_told_and_leaves_its_plan_alone(folder: Path, process: ManagerProcess) -> None:
    watching = watch(folder, process)
    write(folder / "storms.siddhiql", PLAN)
    look(watching)
    write(folder / "storms.siddhiql", PLAN + "from Nowhere select * insert into X;")
    look(watching)
    assert texts(process) == {NAME: PLAN}
    assert [one.name for one in watching.problems()] == ["storms.siddhiql"]
    assert "Nowhere" in watching.problems()[0].problem
    write(folder / "storms.siddhiql", PLAN)
    look(watching)
    assert watching.problems() == ()


def test_another_name_in_the_same_file_renames_and_another_file_name_changes_nothing(
    folder: Path, process: ManagerProcess
) -> None:
    watching = watch(folder, process)
    write(folder / "storms.siddhiql", PLAN)
    look(watching)
    write(folder / "storms.siddhiql", named(PLAN, "Gales"))
    look(watching)
    assert list(texts(process)) == ["Gales"]
    epoch = process.manager.plans(SUPER_TENANT)[0].epoch
    (folder / "storms.siddhiql").rename(folder / "gales.siddhiql")
    look(watching)
    assert [(one.plan, one.epoch) for one in process.manager.plans(SUPER_TENANT)] == [("Gales", epoch)]
    (folder / "gales.siddhiql").unlink()
    look(watching)
    assert texts(process) == {}


def test_what_was_done_by_hand_stands_until_the_file_changes_also_over_a_restart(
    folder: Path, config: ManagerConfig, process: ManagerProcess
) -> None:
    write(folder / "storms.siddhiql", PLAN)
    look(watch(folder, process))
    process.manager.deploy(SUPER_TENANT, OTHER, replace=True)
    process.close()
    again = ManagerProcess(config)
    try:
        watching = watch(folder, again)
        look(watching)
        assert texts(again) == {NAME: OTHER}
        write(folder / "storms.siddhiql", PLAN + "\n")
        look(watching)
        assert texts(again) == {NAME: PLAN + "\n"}
    finally:
        again.close()


def test_a_plan_of_another_origin_and_a_full_quota_are_not_overridden(folder: Path, process: ManagerProcess) -> None:
    process.manager.deploy(SUPER_TENANT, PLAN, replace=False)
    watching = watch(folder, process)
    write(folder / "storms.siddhiql", OTHER)
    write(folder / "two.siddhiql", named(PLAN, "Two"))
    write(folder / "x-three.siddhiql", named(PLAN, "Three"))
    look(watching)
    assert texts(process) == {NAME: PLAN, "Two": named(PLAN, "Two")}
    told = {one.name: one.problem for one in watching.problems()}
    assert "is deployed by hand with another text" in told["storms.siddhiql"]
    assert "may have 2" in told["x-three.siddhiql"]


def test_a_file_that_is_too_large_for_a_plan_is_not_read(folder: Path, process: ManagerProcess) -> None:
    watching = watch(folder, process)
    write(folder / "storms.siddhiql", PLAN + " " * LARGEST_BYTES)
    look(watching)
    assert texts(process) == {}
    assert "a plan may have 1048576" in watching.problems()[0].problem


def test_a_file_whose_name_is_no_text_is_told_and_not_deployed(folder: Path, process: ManagerProcess) -> None:
    watching = watch(folder, process)
    write(folder / os.fsdecode(b"\xe4.siddhiql"), PLAN)
    look(watching)
    assert texts(process) == {}
    (told,) = watching.problems()
    assert (told.name, "rename it" in told.problem) == ("\\udce4.siddhiql", True)


def test_a_folder_that_is_gone_changes_nothing(folder: Path, process: ManagerProcess) -> None:
    watching = watch(folder, process)
    write(folder / "storms.siddhiql", PLAN)
    look(watching)
    folder.rename(folder.with_name("moved"))
    look(watching)
    assert texts(process) == {NAME: PLAN}
    assert "cannot be read" in watching.problems()[0].problem


def test_an_empty_folder_in_which_there_were_no_files_undeploys_nothing(folder: Path, process: ManagerProcess) -> None:
    """Its volume may not be mounted, when the manager starts or later."""
    write(folder / "storms.siddhiql", PLAN)
    watching = watch(folder, process)
    look(watching)
    volume = folder.rename(folder.with_name("volume"))
    folder.mkdir()
    for looking in (watching, watch(folder, process)):
        look(looking)
        assert texts(process) == {NAME: PLAN}
        assert f"plans of its files stay until there is a file in it, or they are undeployed by hand: {NAME}" in (
            looking.problems()[0].problem
        )
    folder.rmdir()
    volume.rename(folder)
    look(watching)
    assert watching.problems() == ()
    (folder / "storms.siddhiql").unlink()
    look(watching)
    assert texts(process) == {}


def test_the_manager_looks_by_itself_and_tells_what_is_wrong(config: ManagerConfig, folder: Path) -> None:
    write(folder / "storms.siddhiql", PLAN)
    write(folder / "broken.siddhiql", "no plan")
    process = ManagerProcess(msgspec.structs.replace(config, plan_folder=PlanFolderConfig(str(folder), 10)))
    try:
        eventually(lambda: texts(process))
        assert eventually(lambda: process.manager.cluster().file_problems)[0].name == "broken.siddhiql"
    finally:
        process.close()


def test_a_copy_of_a_file_takes_no_plan_away_and_may_become_a_plan_of_its_own(
    folder: Path, process: ManagerProcess
) -> None:
    watching = watch(folder, process)
    write(folder / "storms.siddhiql", PLAN)
    look(watching)
    write(folder / "gales.siddhiql", PLAN)
    look(watching)
    (told,) = watching.problems()
    assert told.name == "gales.siddhiql"
    assert "storms.siddhiql" in told.problem
    write(folder / "gales.siddhiql", named(PLAN, "Gales"))
    look(watching)
    assert texts(process) == {NAME: PLAN, "Gales": named(PLAN, "Gales")}
    (folder / "gales.siddhiql").unlink()
    look(watching)
    assert (texts(process), watching.problems()) == ({NAME: PLAN}, ())


def test_a_copy_takes_the_plan_over_once_the_first_file_has_gone(folder: Path, process: ManagerProcess) -> None:
    watching = watch(folder, process)
    write(folder / "storms.siddhiql", PLAN)
    look(watching)
    write(folder / "copy.siddhiql", PLAN)
    look(watching)
    (folder / "storms.siddhiql").unlink()
    look(watching)
    assert [(one.plan, one.epoch) for one in process.manager.plans(SUPER_TENANT)] == [(NAME, 1)]
    assert watching.problems() == ()


def test_a_file_that_is_edited_and_moved_at_once_changes_its_plan(folder: Path, process: ManagerProcess) -> None:
    watching = watch(folder, process)
    write(folder / "storms.siddhiql", PLAN)
    look(watching)
    (folder / "storms.siddhiql").unlink()
    write(folder / "gales.siddhiql", OTHER)
    look(watching)
    assert (texts(process), watching.problems()) == ({NAME: OTHER}, ())
    assert process.manager.plans(SUPER_TENANT)[0].epoch == 2


def test_a_file_is_deployed_when_what_stood_in_its_way_has_gone(folder: Path, process: ManagerProcess) -> None:
    by_hand = process.manager.deploy(SUPER_TENANT, PLAN, replace=False)
    watching = watch(folder, process)
    write(folder / "a.siddhiql", named(PLAN, "Gales"))
    write(folder / "storms.siddhiql", OTHER)
    look(watching)
    assert texts(process)[by_hand.plan] == PLAN
    (folder / "a.siddhiql").unlink()
    look(watching)
    assert texts(process) == {NAME: PLAN}, "a file that waits keeps no other plan"
    process.manager.undeploy(PlanKey(SUPER_TENANT, NAME))
    look(watching)
    assert (texts(process), watching.problems()) == ({NAME: OTHER}, ())


def test_a_file_that_gets_the_text_of_a_plan_deployed_by_hand_leaves_no_orphan(
    folder: Path, process: ManagerProcess
) -> None:
    watching = watch(folder, process)
    process.manager.deploy(SUPER_TENANT, named(PLAN, "Gales"), replace=False)
    write(folder / "storms.siddhiql", PLAN)
    look(watching)
    write(folder / "storms.siddhiql", named(PLAN, "Gales"))
    look(watching)
    assert list(texts(process)) == ["Gales"]


def test_files_that_wait_for_kafka_are_tried_again_and_hold_up_no_other(
    process: ManagerProcess, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans, away = process.manager.file_plans, True
    deploy_file = plans.deploy_file

    def deploying(tenant: int, text: str, *rest: Any, edited: bool) -> None:
        if "'A'" in text and away:
            raise KafkaUnavailableError("cannot list topics")
        deploy_file(tenant, text, *rest, edited=edited)

    monkeypatch.setattr(plans, "deploy_file", deploying)
    monkeypatch.setattr(folder_watch, "KAFKA_AGAIN_S", 0.0)
    write(folder / "a.siddhiql", named(PLAN, "A"))
    write(folder / "b.siddhiql", named(PLAN, "B"))
    watching = watch(folder, process)
    look(watching)
    look(watching)
    assert texts(process).keys() == {"B"}
    assert [one.problem for one in watching.problems()] == ["cannot list topics"]
    away = False
    look(watching)
    assert texts(process).keys() == {"A", "B"}
    assert watching.problems() == ()
