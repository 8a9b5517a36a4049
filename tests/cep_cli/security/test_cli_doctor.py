"""`cep doctor security`: each thing that is wrong is found, and a hardened system is left in peace."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest

from cep_cli.doctor.checks import Facts, ProcessFacts, findings_of
from cep_cli.doctor.security import gather
from cep_cli.doctor.sockets import ListeningSocket, listening_sockets

HARDENED: dict[str, dict[str, Any]] = {
    "manager": {
        "host": "10.0.0.1", "http.host": "10.0.0.1", "security.keys": "/k", "security.tokens": "/t",
        "security.certificate": "/c", "accounts.login": True, "security.insecure": False, "script": {"python": False},
    },
    "worker": {
        "host": "10.0.0.2", "http.host": "10.0.0.2", "ingress.host": "10.0.0.2", "security.keys": "/k",
        "security.tokens": "/t", "security.certificate": "/c", "sinks.folders": ["/srv/out"],
        "sinks.urls": ["https://*.example.org", "tcp://10.0.0.0/8:7611"],
    },
    "driver": {
        "host": "10.0.0.3", "security.keys": "/k", "spark.master": "spark://h:7077", "stages.store_urls": False,
        "spark.conf": {"spark.authenticate": "true"},
    },
}  # fmt: skip


def facts(kind: str = "", **changes: Any) -> Facts:
    changed = {key.replace("__", "."): value for key, value in changes.items()}
    return Facts(
        [ProcessFacts(one, one, {**known, **(changed if one == kind else {})}) for one, known in HARDENED.items()]
    )


def test_a_hardened_system_is_left_in_peace() -> None:
    assert findings_of(facts()) == []


@pytest.mark.parametrize(
    ("kind", "changes", "weight", "problem"),
    [
        ("manager", {"security__insecure": True}, "critical", "accepts requests from other hosts"),
        ("manager", {"accounts__login": False}, "critical", "does not require a login"),
        ("manager", {"accounts__login": False, "http__host": "127.0.0.1"}, "warning", "does not require a login"),
        ("manager", {"security__certificate": ""}, "critical", "unencrypted"),
        ("manager", {"script": {"python": True}}, "warning", "scripts of plans (python)"),
        ("worker", {"security__keys": ""}, "critical", "has no keys"),
        ("worker", {"security__tokens": ""}, "critical", "accepts events over HTTP without authentication"),
        ("worker", {"sinks__folders": ["/"]}, "critical", "lets plans use files in /"),
        ("worker", {"password_files__folders": ["/etc"]}, "critical", "lets plans use files in /etc"),
        ("worker", {"sinks__urls": ["*"]}, "critical", "reach any host"),
        ("worker", {"sinks__urls": ["http://*:80"]}, "critical", "reach any host"),
        ("driver", {"stages__store_urls": True}, "critical", "any database"),
        ("driver", {"spark__conf": {}}, "critical", "executors are not authenticated"),
        ("driver", {"spark__conf": {"spark.authenticate": "true", "spark.ui.enabled": "true"}}, "critical", "web UI"),
    ],
)
def test_what_is_wrong_is_found(kind: str, changes: dict[str, Any], weight: str, problem: str) -> None:
    found = findings_of(facts(kind, **changes))
    assert [(one.weight, one.where, problem in one.problem) for one in found] == [(weight, kind, True)]
    assert found[0].remedy


def test_sockets_plans_files_and_users_are_looked_at() -> None:
    wide = ListeningSocket("tcp", "0.0.0.0", 4040, 1, "/usr/bin/java -cp x")  # noqa: S104
    inner = ListeningSocket("tcp", "127.0.0.1", 4041, 1, "java")
    process = ProcessFacts("driver", "driver", HARDENED["driver"], [wide, inner])
    plans = {"P": "@sink(type='email', password='hush') define stream S (a int);", "Q": "password='${secret:X}'"}
    found = findings_of(Facts([process], plans, {"/db": 0o100644, "/ok": 0o100600}, ["admin"], ["/keys/client.key"]))
    assert [(one.weight, one.where) for one in found] == [
        ("critical", "/db"), ("critical", "driver"), ("critical", "user admin"), ("warning", "/keys/client.key"),
        ("warning", "plan P"),
    ]  # fmt: skip
    assert "0.0.0.0:4040" in found[1].problem


def test_sockets_of_a_process_are_those_that_the_kernel_lists() -> None:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("::1", 0), family=socket.AF_INET6) as two:
        ports = {one.getsockname()[1]: "127.0.0.1", two.getsockname()[1]: "::1"}
        found = {found.port: found for found in listening_sockets([os.getpid()]) if found.port in ports}
        assert {port: one.address for port, one in found.items()} == ports
        assert all(one.is_loopback() for one in found.values())
        closed = socket.socket()
        closed.connect(one.getsockname())
        assert closed.getsockname()[1] not in {found.port for found in listening_sockets([os.getpid()])}
        closed.close()


def test_what_a_manager_and_this_host_tell_is_gathered(tmp_path: Path) -> None:
    database = tmp_path / "manager.db"
    database.touch(0o644)
    database.chmod(0o644)

    class Client:
        def processes(self) -> list[Any]:
            return [
                {"id": "manager:a", "kind": "manager", "live": True, "process_id": os.getpid()},
                {"id": "worker:b", "kind": "worker", "live": True, "process_id": 0},
                {"id": "worker:c", "kind": "worker", "live": False, "process_id": 0},
            ]

        def configuration(self, process: str) -> Any:
            values = {"database.url": f'"sqlite:///{database}"', "accounts.login": "true"}
            return {"settings": [{"key": key, "value": value} for key, value in values.items()], "problem": ""}

        def plans(self) -> list[Any]:
            return [{"plan": "P"}]

        def plan(self, plan: str) -> Any:
            return {"text": "define stream S (a int);"}

        def users(self) -> list[Any]:
            return [{"name": "admin", "must_change_password": True, "disabled": False}]

    found = gather(Client())  # type: ignore[arg-type]
    assert [(one.id, one.settings["accounts.login"], one.unseen) for one in found.processes] == [
        ("manager:a", True, ""), ("worker:b", True, "it runs on another host"),
    ]  # fmt: skip
    assert {path: mode & 0o777 for path, mode in found.modes.items()} == {str(database): 0o644}
    assert (found.new_users, found.plans) == (("admin",), {"P": "define stream S (a int);"})
