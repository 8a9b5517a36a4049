"""An editor's plan reaches for what its tenant does not own: files, the manager, cloud metadata, other hosts."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from types import SimpleNamespace

import pytest

from cep_common.errors import ConfigError
from cep_common.ids import Endpoint, PlanKey
from cep_common.protocol.links import OpenLink, StreamSchema
from cep_common.protocol.registry import Connector
from cep_common.reach import connecting
from cep_common.reach.connecting import ReachError, allowed_addresses
from cep_common.reach.files import APPLICATION_ID
from cep_common.reach.guard import Guard, Reach
from cep_worker.config import (
    FileSourcesConfig,
    FoldersConfig,
    SinkConfig,
    SourcesConfig,
    WorkerConfig,
    WorkerHttpConfig,
)
from cep_worker.connector_runtime.reach import worker_guard
from cep_worker.sinks import zeromq
from query_plan.checks.reach import WorkerReach
from query_plan.connectors.judging import Kind
from query_plan.connectors.reach import reach_faults, refuse_reach
from query_plan.examination import examine

WIDE = ("*", "*://localhost", "*://127.0.0.0/8", "*://[::1]")


def options(**named: str) -> dict[str, str]:
    return {name.replace("_", "."): text for name, text in named.items()}


def faults(guard: Guard, kind: Kind, type_: str, given: frozenset[str] = frozenset(), **named: str) -> list[str]:
    connector = Connector("Out", type_, options(**named), "", {})
    return [fault.text() for fault in reach_faults(kind, connector, guard, given)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "out"
    made.mkdir()
    return made


@pytest.fixture
def guard(tmp_path: Path, folder: Path) -> Guard:
    """A worker that lets plans write to `out`, and call any URL."""
    return worker_guard(
        WorkerConfig(
            sinks=SinkConfig(folders=(str(folder),), urls=WIDE),
            sources=SourcesConfig(urls=("tcp://0.0.0.0:9000-9100",)),
            file_sources=FileSourcesConfig(folders=(str(folder),)),
            password_files=FoldersConfig(folders=(str(folder),)),
            protected=(str(tmp_path / "out" / "private"),),
        )
    )


@pytest.mark.parametrize(
    ("kind", "type_", "named"),
    [
        ("sink", "file", {"file_uri": "/srv/x"}),
        ("sink", "file", {"file_uri": "/srv/{{a}}"}),
        ("sink", "http", {"publisher_url": "https://example.org/"}),
        ("sink", "http", {"publisher_url": "https://example.org/{{a}}"}),
        ("sink", "http", {"publisher_url": "{{a}}", "token_url": "https://example.org/"}),
        ("sink", "email", {"to": "a@b.c"}),
        ("sink", "email", {"host": "10.0.0.1", "port": "25"}),
        ("sink", "email", {"host": "mail", "password_file": "/etc/passwd"}),
        ("sink", "rdbms", {"url": "sqlite:////tmp/x.db"}),
        ("sink", "rdbms", {"url": "postgresql://db/x"}),
        ("sink", "rdbms", {"url": "postgresql:///x"}),
        ("sink", "zeromq", {"endpoint": "tcp://10.0.0.1:7611"}),
        ("source", "file", {"file_uri": "/etc/passwd"}),
        ("source", "file", {"dir_uri": "/etc"}),
        ("source", "zeromq", {"endpoint": "tcp://0.0.0.0:9000"}),
    ],
)
def test_a_worker_as_shipped_lets_plans_reach_nothing(kind: Kind, type_: str, named: dict[str, str]) -> None:
    found = faults(worker_guard(WorkerConfig()), kind, type_, **named)
    assert found
    assert any(key in found[0] for key in ("sinks.", "sources.", "password_files."))


def test_what_is_listed_is_reached(guard: Guard, folder: Path) -> None:
    assert faults(guard, "sink", "file", file_uri=f"file:{folder}/a/{{{{carrier}}}}.txt") == []
    assert faults(guard, "sink", "http", publisher_url="https://example.org/x?y") == []
    assert faults(guard, "sink", "rdbms", url=f"sqlite:///{folder}/x.db") == []
    assert faults(guard, "sink", "rdbms", url="postgresql+psycopg://u:p@db.example.org/x?sslmode=require") == []
    assert faults(guard, "sink", "zeromq", endpoint="tcp://127.0.0.1:7611") == []
    assert faults(guard, "source", "zeromq", endpoint="tcp://0.0.0.0:9050") == []
    assert faults(guard, "source", "file", file_uri=str(folder / "in.txt"), move_after_process=str(folder)) == []


@pytest.mark.parametrize(
    "path",
    ["{out}/../other", "{out}x/file", "/proc/self/mem", "/proc/self/fd/3", "/dev/null", "//proc/self/environ",
     "{out}/link", "{out}/private", "{out}/private/key", "{out}/manager.db", "{out}/manager.db-wal",
     "{out}/upwards/{tmp}/other", "relative", "{out}/a\0b"],
)  # fmt: skip
def test_no_spelling_of_a_path_leads_out_or_to_the_systems_files(guard: Guard, folder: Path, path: str) -> None:
    (folder / "link").symlink_to("/etc/passwd")
    (folder / "upwards").symlink_to("/")
    head = bytearray(100)
    head[:16] = b"SQLite format 3\0"
    head[68:72] = APPLICATION_ID.to_bytes(4, "big")
    (folder / "manager.db").write_bytes(head)
    written = path.format(out=folder, tmp=folder.parent)
    assert guard.refuse_file(written, "sink")
    assert guard.refuse_file(written, "source")
    assert guard.refuse_file(written, "password")


def test_a_hard_link_to_a_managers_database_is_still_one(guard: Guard, folder: Path, tmp_path: Path) -> None:
    test_no_spelling_of_a_path_leads_out_or_to_the_systems_files(guard, folder, "{out}/manager.db")
    os.link(folder / "manager.db", folder / "innocent.txt")
    assert "belongs to this system" in guard.refuse_file(folder / "innocent.txt", "sink")


@pytest.mark.parametrize(
    "url",
    ["sqlite:///file:{out}/x.db?uri=true", "sqlite:///file:/etc/x", "sqlite+pysqlcipher:///{out}/x",
     "sqlite:///{out}/manager.db?vfs=unix-none", "sqlite:///{out}/../x.db", "sqlite:///{out}/private/x.db",
     "postgresql://db.example.org/x?host=127.0.0.1", "postgresql://db.example.org/x?hostaddr=127.0.0.1",
     "postgresql://db.example.org/x?service=mine", "postgresql://db.example.org/x?passfile=/etc/passwd",
     "mysql+pymysql://db.example.org/x?read_default_file=/etc/my.cnf", "mysql://db/x?unix_socket=/run/x",
     "mysql+pymysql://db.example.org/x?plugin=evil", "mssql+pyodbc:///?odbc_connect=x", "duckdb:////etc/x",
     "postgresql://169.254.169.254/x"],
)  # fmt: skip
def test_no_database_url_opens_what_its_host_does_not_say(guard: Guard, folder: Path, url: str) -> None:
    try:
        found = faults(guard, "sink", "rdbms", url=url.format(out=folder))
    except ImportError:
        pytest.fail("a driver was loaded")
    assert found or "duckdb" in url


@pytest.mark.parametrize(
    "url",
    ["http://169.254.169.254/latest/meta-data", "http://[fe80::1]/", "http://0.0.0.0:80/", "http://[::]/",
     "http://[::ffff:169.254.169.254]/", "http://[64:ff9b::a9fe:a9fe]/", "http://[fd00:ec2::254]/",
     "http://127.0.0.1:8904/", "http://localhost:8006/", "http://127.5.5.5:8904/", "http://[::1]:7612/",
     "http://[::ffff:127.0.0.1]:8904/", "http://127.0.0.1:15001/", "http://LOCALHOST.:13007/",
     "http://user@127.0.0.1:14000/"],
)  # fmt: skip
def test_no_list_opens_metadata_or_the_systems_own_ports(guard: Guard, url: str) -> None:
    assert faults(guard, "sink", "http", publisher_url=url)


@pytest.mark.parametrize("host", ["127.1", "2130706433", "0x7f000001", "localhost.", "0177.0.0.1"])
def test_a_list_of_any_host_is_none_of_this_very_host(host: str) -> None:
    guard = Guard(Reach(sink_urls=("*",)))
    with pytest.raises((ReachError, OSError)):
        allowed_addresses(guard, "http", host, 80)


def test_a_name_is_judged_by_what_it_means_when_it_is_connected(monkeypatch: pytest.MonkeyPatch) -> None:
    guard = Guard(Reach(sink_urls=("*", "*://localhost")))

    def means(address: str) -> None:
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 80))]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)

    means("93.184.216.34")
    assert allowed_addresses(guard, "http", "hooks.example.org", 80) == ["93.184.216.34"]
    for address in ("127.0.0.1", "169.254.169.254", "::", "::1", "::ffff:127.0.0.1"):
        means(address)
        with pytest.raises(ReachError, match="may not be called"):
            allowed_addresses(guard, "http", "hooks.example.org", 80)


def test_the_control_plane_of_another_host_is_the_systems_too() -> None:
    guard = worker_guard(WorkerConfig(managers=("manager.example.org:8904",), sinks=SinkConfig(urls=WIDE)))
    assert "belongs to this system" in guard.refuse_url("tcp", "manager.example.org", 8904)
    assert "belongs to this system" in guard.refuse_url("http", "Manager.Example.Org.", 8904)


def test_secrets_of_the_configuration_go_nowhere_else(guard: Guard) -> None:
    given = frozenset({"basic.auth.username", "basic.auth.password"})
    connector = Connector(
        "Out", "http",
        options(publisher_url="https://evil.example.org/", basic_auth_username="u", basic_auth_password="p"), "", {},  # noqa: S106
    )  # fmt: skip
    with pytest.raises(
        ConfigError,
        match=r"publisher\.url: basic\.auth\.password .* can only be sent to the destination that it configures",
    ):
        refuse_reach("sink", connector, guard, "@sink", given)


def test_what_the_operator_names_needs_no_leave() -> None:
    guard = worker_guard(WorkerConfig())
    assert faults(guard, "sink", "http", frozenset({"publisher.url"}), publisher_url="http://127.0.0.1:9/") == []
    assert faults(guard, "sink", "email", frozenset({"host", "port"}), host="127.0.0.1", port="25", to="a@b.c") == []
    assert faults(guard, "sink", "email", frozenset({"host"}), host="127.0.0.1", port="26", to="a@b.c")


@pytest.mark.parametrize("text", ["", "http://", "http://a b", "http://x:99999", "http://10.0.0.0/99", "ftp//x", "x/y"])
def test_a_list_with_an_entry_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="urls: "):
        SinkConfig(urls=(text,))


@pytest.mark.parametrize(
    ("rule", "fitting", "other"),
    [
        ("https://*.example.org", ("https", "a.example.org", 443), ("https", "example.org.evil", 443)),
        ("https://*.example.org", ("https", "a.b.example.org", 443), ("https", "example.org", 443)),
        ("http://10.0.0.0/8:8080", ("http", "10.9.8.7", 8080), ("http", "11.0.0.1", 8080)),
        ("http://h:80-90", ("http", "h", 85), ("http", "h", 91)),
        ("smtp://mail", ("smtp", "mail", 465), ("smtp", "mail", 6379)),
        ("postgresql://db", ("postgresql", "db", 5432), ("mysql", "db", 5432)),
        ("*://h", ("tcp", "h", 1), ("tcp", "g", 1)),
        ("http://[2001:db8::1]:8080", ("http", "2001:db8::1", 8080), ("http", "2001:db8::2", 8080)),
    ],
)
def test_a_rule_means_scheme_host_and_port(
    rule: str, fitting: tuple[str, str, int], other: tuple[str, str, int]
) -> None:
    guard = Guard(Reach(sink_urls=(rule,)))
    assert guard.refuse_url(*fitting) == ""
    assert guard.refuse_url(*other)


def test_the_own_ingress_is_for_links_alone() -> None:
    config = WorkerConfig(sinks=SinkConfig(urls=WIDE))
    guard, ingress = worker_guard(config), Endpoint(config.ingress.host, config.ingress.port)
    assert guard.refuse_url("tcp", ingress.host, ingress.port) == ""
    assert guard.refuse_url("http", ingress.host, ingress.port)
    assert guard.refuse_url("tcp", config.egress.host, config.egress.port)


def test_a_manager_reads_paths_as_the_worker_will() -> None:
    guard = Guard(Reach(sink_folders=("/srv", "out"), working_folder="/srv/w1"), here=False)
    assert guard.refuse_file("x.csv", "sink") == ""
    assert guard.refuse_file("../x.csv", "sink") == ""
    assert guard.refuse_file("../../x.csv", "sink")
    within = Guard(Reach(sink_folders=("out",), working_folder="/srv/w1"), here=False)
    assert within.refuse_file("out/x.csv", "sink") == ""
    assert within.refuse_file("x.csv", "sink")


PLAN = """@Plan:name('P')
@Import('In:1.0.0')
define stream In (a string);
@Export('Out:1.0.0')
@sink(type='file', file.uri='/etc/cron.d/x')
define stream Out (a string);
@Store(type='rdbms', url='sqlite:////var/lib/x.db')
define table T (a string);
from In select a insert into Out;
from In select a insert into T;
"""


def test_a_manager_refuses_what_its_workers_and_driver_would() -> None:
    guard = Guard(Reach(), here=False)
    reaches = WorkerReach({"w1": Reach(sink_folders=("/srv",)), "w2": Reach(sink_folders=("/srv",))}, store_urls=False)
    found = [
        finding.problem for finding in examine(PLAN, reaches=reaches).findings if finding.problem.code == "not-allowed"
    ]
    assert [(one.span.line, one.message) for one in found if one.span is not None] == [
        (5, f"@sink(type='file') of Out: file.uri: {guard.refuse_file('/etc/cron.d/x', 'sink')}"),
        (7, "the store of the table T: url: plans can use only the operator's datasources"),
    ]  # fmt: skip
    assert examine(PLAN, reaches=reaches).compiled is None
    assert examine(PLAN).compiled is not None
    open_to_all = WorkerReach({"w1": Reach(sink_folders=("/",))})
    assert examine(PLAN, reaches=open_to_all).compiled is not None


def test_what_a_destination_may_not_reach_is_found_at_its_place() -> None:
    destinations = "@destination(file.uri='/srv/x'), @destination(file.uri='/etc/cron.d/x')"
    sink = f"@sink(type='file', @distribution(strategy='broadcast', {destinations}))"
    text = f"@app:name('P') define stream In (a string); {sink} define stream Out (a string); from In insert into Out;"
    found = examine(text, reaches=WorkerReach({"w1": Reach(sink_folders=("/srv",))})).findings
    spans = [one.problem.span for one in found if one.problem.code == "not-allowed"]
    assert [one and text[one.start : one.end] for one in spans] == ["file.uri='/etc/cron.d/x'"]


def test_a_worker_that_listens_everywhere_is_not_called_at_its_hosts_other_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    everywhere = "0.0.0.0"  # noqa: S104 - what a worker on several networks has
    config = WorkerConfig(http=WorkerHttpConfig(host=everywhere), sinks=SinkConfig(urls=("*",)))
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.9.8.7", 0))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    guard = worker_guard(config)
    assert allowed_addresses(guard, "http", "other.example.org", config.http.port) == ["10.9.8.7"]
    monkeypatch.setattr(connecting, "is_here", lambda _: True)
    for port in (config.http.port, 15_050, 13_001):
        with pytest.raises(ReachError, match="belongs to this system"):
            allowed_addresses(guard, "http", "other.example.org", port)
    assert allowed_addresses(guard, "http", "other.example.org", 9_999) == ["10.9.8.7"]


def test_a_manager_knows_a_workers_folders_by_both_names(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir()
    link.symlink_to(real)
    told = WorkerConfig(sinks=SinkConfig(folders=(str(link),))).reach()
    manager = Guard(told, here=False)
    assert [manager.refuse_file(path, "sink") for path in (link / "x", real / "x")] == ["", ""]
    assert manager.refuse_file(link / ".." / "x", "sink")
    assert manager.refuse_file("/etc/x", "sink")
    assert worker_guard(WorkerConfig()).refuse_file("out.txt", "sink")


def test_an_address_of_this_host_is_known() -> None:
    assert connecting.is_here("127.0.0.1")
    assert not connecting.is_here("192.0.2.1")


def test_a_link_of_a_sink_speaks_for_its_plans_tenant(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[OpenLink] = []

    class Link:
        rows = delivered_rows = 0
        last_error = ""

        def __init__(self, *arguments: object) -> None:
            opened.append(next(one for one in arguments if isinstance(one, OpenLink)))

    monkeypatch.setattr(zeromq, "DeliveryLink", Link)
    connector = Connector("Out", "zeromq", {"endpoint": "tcp://127.0.0.1:7611", "stream": "In:1.0.0"}, "", {})
    context = SimpleNamespace(
        connector=connector, key=PlanKey(7, "P"), schema=StreamSchema("Out", ()), event_stream="Out:1.0.0",
        worker="w", event_loop=None, zmq_context=None, room=None, guard=None, given=frozenset(), where=lambda: "@sink",
    )  # fmt: skip
    zeromq.zeromq_sink(context)  # type: ignore[arg-type]
    assert [one.tenant for one in opened] == [7]
