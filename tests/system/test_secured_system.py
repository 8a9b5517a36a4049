"""A system with keys and tokens: it works, strangers stay outside, and nothing that it says holds a secret."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
import requests
from click.testing import CliRunner
from late_plan import CONNECT_TIMEOUT_S, EVENT_TIMEOUT_MS, PLAN, TEXT, departures

from cep_cli.client.rest import ManagerClient
from cep_cli.doctor.checks import findings_of
from cep_cli.doctor.security import gather
from cep_cli.doctor.sockets import listening_sockets
from cep_cli.errors import CommandRefusedError
from cep_cli.main import main
from cep_cli.plan_commands.plans import wait_until_connected
from cep_cli.system.local_system import LocalSystem, Ports
from cep_common.errors import InputError, PeerError
from cep_common.ids import SUPER_TENANT, Endpoint
from cep_common.protocol.drivers import RegisterDriver
from cep_common.protocol.registry import ListPlans, RegisterWorker
from cep_common.security.access import AccessRole
from cep_common.security.config import SecurityConfig
from cep_common.security.context import open_context
from cep_common.security.keys import read_keys, write_keys
from cep_common.security.roles import Role
from cep_common.security.tokens import TokenFile, bearer
from cep_common.sockets.transport import ControlClient
from cep_worker.ingest.event_sender import EventSender, fetch_schema
from topology.links.event_listener import EventListener

pytestmark = [pytest.mark.spark, pytest.mark.cluster]

WRONG = "cep_" + "W" * 43
PATIENCE_S = 60
"""Of requests on a machine that is busy with other things."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the secrets are: keys, and a file of tokens."""
    made = tmp_path_factory.mktemp("secrets")
    write_keys(made / "keys")
    return made


@pytest.fixture(scope="module")
def tokens(folder: Path) -> dict[AccessRole, str]:
    file = TokenFile(folder / "tokens.json")
    return {role: file.create(f"the {role.value}", role, None, 0) for role in AccessRole}


@pytest.fixture(scope="module")
def secured(
    folder: Path, tokens: dict[AccessRole, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalSystem]:
    keys = {f"CEP_{process}__SECURITY__KEYS": str(folder / "keys") for process in ("MANAGER", "DRIVER", "WORKER")}
    files = {f"CEP_{process}__SECURITY__TOKENS": str(folder / "tokens.json") for process in ("MANAGER", "WORKER")}
    page = {"CEP_DRIVER__SPARK__CONF": "{spark.ui.enabled: 'true', spark.ui.port: '0'}"}  # to see what it tells
    environment = {**os.environ, **keys, **files, **page}
    work = tmp_path_factory.mktemp("secured")
    with LocalSystem(work, Ports.free(), environment=environment, token=tokens[AccessRole.ADMIN]) as system:
        system.client.deploy(TEXT, replace=False)
        wait_until_connected(system.client, PLAN, CONNECT_TIMEOUT_S)
        yield system


def test_events_flow_between_those_who_have_keys_and_tokens(
    secured: LocalSystem, folder: Path, tokens: dict[AccessRole, str]
) -> None:
    security = SecurityConfig(str(folder / "keys"))
    schema = fetch_schema(secured.worker_http, f"{PLAN}/Departures", token=tokens[AccessRole.SENDER])
    with (
        EventListener(secured.egress, f"{PLAN}/Late", security=security) as listener,
        EventSender(secured.ingress, schema, "test", security=security) as sender,
    ):
        sender.send(departures(sender, ("UA", 61), ("B6", 60)))
        batch = listener.receive(EVENT_TIMEOUT_MS)
        assert batch is not None
        assert batch.column("carrier").to_pylist() == ["UA"]
    answer = requests.post(
        f"{secured.worker_http}/events/{PLAN}/Departures",
        json={"carrier": "UA", "dep_delay": 61},
        headers=bearer(tokens[AccessRole.SENDER]),
        timeout=PATIENCE_S,
    )
    assert answer.status_code == 202


def test_operators_reach_the_error_stores_of_workers_through_the_manager(
    secured: LocalSystem, tokens: dict[AccessRole, str]
) -> None:
    told = ManagerClient(secured.client.url, token=tokens[AccessRole.OPERATOR]).failed_events(PLAN, 5)
    assert (told["found"], told["silent"]) == (0, [])
    with pytest.raises(CommandRefusedError, match="not-authorised"):
        ManagerClient(secured.client.url, token=tokens[AccessRole.VIEWER]).failed_events(PLAN, 5)


def test_strangers_stay_outside_and_nothing_that_is_said_or_written_holds_a_secret(
    secured: LocalSystem, folder: Path, tokens: dict[AccessRole, str], tmp_path: Path
) -> None:
    schema = fetch_schema(secured.worker_http, f"{PLAN}/Departures", token=tokens[AccessRole.VIEWER])
    write_keys(tmp_path / "others")
    said = [str(_refused(EventSender, secured.ingress, schema, timeout_ms=500))]
    others = SecurityConfig(str(tmp_path / "others"))
    said.append(str(_refused(EventSender, secured.ingress, schema, timeout_ms=500, security=others)))
    said.append(str(_refused(EventListener, secured.egress, f"{PLAN}/Late", timeout_ms=500)))
    url = secured.client.url
    said += [str(_refused(ManagerClient(url, token=token).plans)) for token in ("", WRONG)]
    said.append(str(_refused(ManagerClient(url, token=tokens[AccessRole.VIEWER]).undeploy, PLAN)))
    said.append(str(_refused(fetch_schema, secured.worker_http, f"{PLAN}/Departures", token=WRONG)))

    secrets = {role.value: read_keys(folder / "keys", role).secret.decode() for role in Role}
    secrets |= {f"token of {role.value}": token for role, token in tokens.items()}
    outputs = {**_told(secured), **_written(secured), "errors": "\n".join(said)}
    assert len(outputs["driver.log"]) > 100
    assert "spark" in outputs["Spark's environment"]
    for path in ("/log", "/configuration"):
        told = outputs[path].count('"problem":"')
        assert outputs[path].count('"problem":""') == told > 3, "every process lets the manager in"
    found = [(where, name) for where, text in outputs.items() for name, secret in secrets.items() if secret in text]
    assert found == []


def test_the_holder_of_a_client_key_sends_and_listens_to_what_it_names(
    secured: LocalSystem, folder: Path, tokens: dict[AccessRole, str], tmp_path: Path
) -> None:
    """Made while the system runs, and revoked while it runs."""
    made = CliRunner().invoke(main, [
        "client-key", str(folder / "keys"), "feeder", "--tenant", str(SUPER_TENANT), "--send", f"{PLAN}/Departures",
        "--listen", f"{PLAN}/Late", "--to", str(tmp_path / "feeder"),
    ])  # fmt: skip
    assert made.exit_code == 0, made.output
    holder = SecurityConfig(str(tmp_path / "feeder"))
    schema = fetch_schema(secured.worker_http, f"{PLAN}/Departures", token=tokens[AccessRole.SENDER])
    with EventListener(secured.egress, f"{PLAN}/Late", security=holder) as listener:
        with EventSender(secured.ingress, schema, "test", security=holder) as sender:
            sender.send(departures(sender, ("DL", 61)))
            batch = listener.receive(EVENT_TIMEOUT_MS)
            assert batch is not None
            assert batch.column("carrier").to_pylist() == ["DL"]
        for stream, tenant in ((f"{PLAN}/Late", 7), ("Late", SUPER_TENANT), (f"{PLAN}/Departures", SUPER_TENANT)):
            refusal = _refused(EventListener, secured.egress, stream, tenant, security=holder)
            assert "the key feeder" in str(refusal), "whether there is such a stream is not said"
        refusal = _refused(EventSender, secured.ingress, schema, "test", tenant=7, security=holder)
        assert "the key feeder belongs to tenant" in str(refusal)
    shutil.copy(folder / "keys" / "manager.key", tmp_path / "feeder")
    control = Endpoint("127.0.0.1", secured.ports.control)
    with open_context(holder, Role.CLIENT) as context:
        for message in (
            ListPlans(),
            RegisterWorker("worker-1", "here", 1, 0),
            RegisterDriver("driver", "here", 1, "local", 1, 1),
        ):
            _refused(ControlClient(context, [control], 500).request, message)
    found = {finding.where for finding in findings_of(gather(secured.client))}
    assert str(folder / "keys" / "client.key") in found, "the doctor tells of the key that has no bounds"
    (folder / "keys" / "clients" / "feeder.key").unlink()
    _refused(EventSender, secured.ingress, schema, timeout_ms=500, security=holder)


def _refused(attempt: Any, *arguments: Any, **options: Any) -> Exception:
    """The error with which the attempt is refused."""
    with pytest.raises((PeerError, InputError, CommandRefusedError)) as caught:
        attempt(*arguments, **options)
    return caught.value


def _told(system: LocalSystem) -> dict[str, str]:
    """What managers, workers and Spark tell anyone who may ask."""
    shown = bearer(system.token)
    told = {}
    paths = ("/cluster", f"/plans/{PLAN}", f"/plans/{PLAN}/topology", f"/plans/{PLAN}/query-plan", "/health")
    for path in (*paths, "/log", "/configuration"):
        told[path] = requests.get(f"{system.client.url}/api/v1{path}", headers=shown, timeout=PATIENCE_S).text
    for page in ("/", f"/plans/{PLAN}", "/cluster"):
        told[f"page {page}"] = requests.get(f"{system.client.url}{page}", headers=shown, timeout=PATIENCE_S).text
    told["worker"] = requests.get(f"{system.worker_http}/health", timeout=PATIENCE_S).text
    assert msgspec.json.decode(told["worker"]) == {"status": "ok"}
    spark = system.client.cluster()["driver"]["web_url"]
    assert urlsplit(spark).hostname == "127.0.0.1"
    assert not any(one.address == "0.0.0.0" for one in listening_sockets([system.pid("driver")]))  # noqa: S104
    (application,) = requests.get(f"{spark}/api/v1/applications", timeout=PATIENCE_S).json()
    for part in ("environment", "jobs", "stages", "executors"):
        address = f"{spark}/api/v1/applications/{application['id']}/{part}"
        told[f"Spark's {part}"] = requests.get(address, timeout=PATIENCE_S).text
    return told


def _written(system: LocalSystem) -> dict[str, str]:
    """What the processes write: logs, databases, whatever is in their folder; and how they were called."""
    files = [path for path in system.folder.rglob("*") if path.is_file()]
    written = {path.name: path.read_bytes().decode("latin-1") for path in files}
    for name in ("manager", "driver", "worker"):
        for of in ("cmdline", "environ"):
            written[f"{of} of {name}"] = Path(f"/proc/{system.pid(name)}/{of}").read_bytes().decode("latin-1")
    return written
