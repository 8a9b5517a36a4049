"""A plan that is deployed once more, as on the second node of CEP 2.0: the same is accepted, another one refused.

Two whole managers on one database. The command line asks the one that does not lead, as on a second node.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from click.testing import CliRunner, Result
from free_ports import free_port
from test_manager_process import eventually

from cep_cli.main import main
from cep_common.ids import SUPER_TENANT
from cep_manager.commands.folder_watch import PlanFolderWatch
from cep_manager.config import (
    AccountsConfig,
    ControlConfig,
    DatabaseConfig,
    ElectionConfig,
    ManagerConfig,
    ManagerHttpConfig,
    PlanFolderConfig,
)
from cep_manager.main import ManagerProcess

MODE = (
    "@Plan:config(siddhi.persistence.snapshot.time.interval.minutes='0', siddhi.enable.distributed.processing='true')"
)
RISE = f"""@Plan:name('Rise') {MODE}
@Import('Temps:1.0.0') define stream Temps (room string, temp double);
@Export('Alerts:1.0.0') define stream Alerts (room string);
from every e1=Temps, e2=Temps[e1.temp + 1 < temp] select e2.room insert into Alerts;
"""
OTHER = RISE.replace("temp + 1", "temp + 2")
SAME = RISE.replace("from every", "-- on the second node\nFROM every")
PLAIN = RISE.replace(MODE, "")


@pytest.fixture
def managers(tmp_path: Path) -> Iterator[tuple[ManagerProcess, ManagerProcess]]:
    """The leader and a standby."""
    database = DatabaseConfig(url=f"sqlite:///{tmp_path / 'manager.db'}", timeout_ms=2_000)
    election = ElectionConfig(heartbeat_ms=1_000, retries=30, poll_ms=200)  # a busy machine must not change the leader
    made: list[ManagerProcess] = []
    try:
        for _ in range(2):
            config = ManagerConfig(
                accounts=AccountsConfig(login=False), control=ControlConfig(port=free_port()),
                http=ManagerHttpConfig(port=free_port()), database=database, election=election,
            )  # fmt: skip
            made.append(ManagerProcess(config))
            assert eventually(lambda: made[0].manager.election().leads)
        assert eventually(lambda: made[1].manager.election().leader is not None)
        yield made[0], made[1]
    finally:
        for one in made:
            one.close()


def address(manager: ManagerProcess) -> str:
    me: str = manager.service.election_status().me.http_address
    return me


def deploy_at(manager: ManagerProcess, folder: Path, text: str, *options: str) -> Result:
    """`cep deploy` at this manager, which sends a change to the leader."""
    file = folder / "plan.siddhiql"
    file.write_text(text, encoding="utf-8")
    return CliRunner().invoke(main, ["deploy", str(file), "--manager", address(manager), *options])


def deployed(manager: ManagerProcess) -> tuple[str, int]:
    (record,) = manager.service.snapshot().plans.values()
    return record.target()[0], record.epoch


def changed_lines(text: str) -> list[str]:
    found = (line.strip() for line in text.splitlines() if line[:1] in "-+" and line[:3] not in ("---", "+++"))
    return [f"{line[0]} {line[1:].strip()}" for line in found]


DIFFERENCE = [
    "- from every e1=Temps, e2=Temps[e1.temp + 1 < temp]",
    "+ from every e1=Temps, e2=Temps[e1.temp + 2 < temp]",
]


def test_a_plan_of_the_second_node_is_compared_with_the_one_that_runs(
    managers: tuple[ManagerProcess, ManagerProcess], tmp_path: Path
) -> None:
    first, second = managers
    assert deploy_at(first, tmp_path, RISE).exit_code == 0

    refused = deploy_at(second, tmp_path, OTHER)
    assert refused.exit_code == 1
    assert "a plan named Rise is deployed with another text" in refused.output
    assert changed_lines(refused.output) == DIFFERENCE

    answer = requests.post(f"{address(first)}/api/v1/plans", data=OTHER.encode(), timeout=10)
    assert (answer.status_code, answer.json()["code"]) == (409, "plan-exists")
    assert changed_lines("\n".join(answer.json()["details"]["difference"])) == DIFFERENCE

    page = requests.post(f"{address(first)}/deploy", data={"text": OTHER, "action": "deploy"}, timeout=10)
    assert page.status_code == 409
    assert "e1.temp + 2 &lt; temp" in page.text.split('aria-label="Difference from the deployed plan"')[1]

    accepted = deploy_at(second, tmp_path, SAME)
    assert accepted.exit_code == 0, accepted.output
    assert "nothing was changed" in accepted.output
    assert deployed(first) == (RISE, 1)

    replaced = deploy_at(second, tmp_path, OTHER, "--replace")
    assert replaced.exit_code == 0, replaced.output
    assert deployed(first) == (OTHER, 2)


def test_a_plan_that_is_not_distributed_is_refused_when_only_its_comments_differ(
    managers: tuple[ManagerProcess, ManagerProcess], tmp_path: Path
) -> None:
    first, second = managers
    assert deploy_at(first, tmp_path, PLAIN).exit_code == 0
    refused = deploy_at(second, tmp_path, PLAIN.replace("from every", "-- over all rooms\nfrom every"))
    assert refused.exit_code == 1
    assert changed_lines(refused.output) == ["+ -- over all rooms"]


def test_a_file_of_the_watched_folder_is_compared_too(
    managers: tuple[ManagerProcess, ManagerProcess], tmp_path: Path
) -> None:
    first, _ = managers
    first.manager.deploy(SUPER_TENANT, RISE, replace=False)
    folder = tmp_path / "plans"
    folder.mkdir()
    watching = PlanFolderWatch(PlanFolderConfig(str(folder)), first.manager.file_plans)

    (folder / "rise.siddhiql").write_text(OTHER, encoding="utf-8")
    for _ in range(3):
        watching.look()
    (problem,) = watching.problems()
    assert "is deployed by hand with another text" in problem.problem
    assert changed_lines(problem.problem) == DIFFERENCE

    (folder / "rise.siddhiql").write_text(SAME, encoding="utf-8")
    for _ in range(3):
        watching.look()
    assert watching.problems() == ()
    assert deployed(first) == (RISE, 1)


def folder_of(node: str, tmp_path: Path, manager: ManagerProcess) -> tuple[Path, PlanFolderWatch]:
    """The node's own folder of plans, as the manager watches it when the node is active."""
    folder = tmp_path / node
    folder.mkdir()
    return folder / "rise.siddhiql", PlanFolderWatch(PlanFolderConfig(str(folder)), manager.manager.file_plans, node)


def look(watching: PlanFolderWatch) -> None:
    for _ in range(3):
        watching.look()


@pytest.mark.parametrize(("mine", "theirs", "epoch"), [(RISE, OTHER, 2), (PLAIN, PLAIN.replace("+ 1", "+ 2"), 2)])
def test_the_folder_of_a_node_that_takes_over_changes_nothing_until_it_changes(
    managers: tuple[ManagerProcess, ManagerProcess], tmp_path: Path, mine: str, theirs: str, epoch: int
) -> None:
    leader, _ = managers
    first, watching_first = folder_of("node-1", tmp_path, leader)
    second, watching_second = folder_of("node-2", tmp_path, leader)
    first.write_text(mine, encoding="utf-8")
    look(watching_first)
    assert deployed(leader) == (mine, 1)

    look(watching_second)  # its folder is empty: nothing is undeployed
    assert watching_second.problems() == ()
    second.write_text(theirs, encoding="utf-8")
    look(watching_second)
    (problem,) = watching_second.problems()
    assert "from the file rise.siddhiql of node-1 with another text; make both files equal" in problem.problem
    assert changed_lines(problem.problem) == DIFFERENCE
    assert deployed(leader) == (mine, 1)

    second.write_text(mine, encoding="utf-8")
    look(watching_second)
    assert watching_second.problems() == ()
    assert deployed(leader) == (mine, 1)

    second.write_text(theirs + "\n", encoding="utf-8")  # an edit of the node that is active
    look(watching_second)
    assert deployed(leader) == (theirs + "\n", epoch)


def test_another_plan_in_the_file_of_that_name_is_deployed_beside_the_other_nodes(
    managers: tuple[ManagerProcess, ManagerProcess], tmp_path: Path
) -> None:
    leader, _ = managers
    first, watching_first = folder_of("node-1", tmp_path, leader)
    second, watching_second = folder_of("node-2", tmp_path, leader)
    first.write_text(RISE, encoding="utf-8")
    look(watching_first)
    second.write_text(RISE.replace("'Rise'", "'Falls'"), encoding="utf-8")
    look(watching_second)
    assert sorted(key.plan for key in leader.service.snapshot().plans) == ["Falls", "Rise"]
    look(watching_first)
    assert sorted(key.plan for key in leader.service.snapshot().plans) == ["Falls", "Rise"]

    second.unlink()  # it was there while this node was active
    (second.parent / "other.siddhiql").write_text(RISE.replace("'Rise'", "'Stays'"), encoding="utf-8")
    look(watching_second)
    look(watching_second)
    assert "Rise" in {key.plan for key in leader.service.snapshot().plans}
    assert "Falls" not in {key.plan for key in leader.service.snapshot().plans}
