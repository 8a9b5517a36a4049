"""Real Kafka brokers of the tests' own: jars of Maven Central, fetched once, kept and checked against their hashes.

Java and the Ivy that Spark ships fetch them; `tests/kafka/ivy.xml` names the version, `tests/kafka/jars.sha256` each
jar. Where they cannot be had, NoBrokerError says what is missing.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from free_ports import free_port

HERE = Path(__file__).parent / "kafka"
VERSION = "4.4.0"
CACHE = Path.home() / ".cache" / "cep-on-spark"
CLUSTER_ID = "dGVzdC1jbHVzdGVyLWlkLQ"
HERE_ALONE = "127.0.0.1"
START_S = 180.0
PRIORITY = -10
FETCH_S = 300.0
USER, PASSWORD = "cep", "broker-secret-1"
"""Whom the SASL listeners know (PLAIN)."""
_SECURED = """
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256
listener.name.sasl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
  user_{user}="{password}";
listener.name.sasl.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
"""
_TLS = """
listener.name.tls.ssl.keystore.type=PEM
listener.name.tls.ssl.keystore.location={keystore}
"""


class NoBrokerError(Exception):
    """There is no Kafka here; the message says what is missing."""


class Broker:
    """One broker; `servers` is its address without protection, `sasl` and `tls` those of its secured listeners."""

    def __init__(
        self, jars: Path, folder: Path, listeners: dict[str, int], host: str = HERE_ALONE, log: Path | None = None
    ) -> None:
        self._folder = folder
        self._log = log or folder / "server.out"
        self._host = host
        self._java = ["java", "-Xmx256m", "-Xms64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
                      "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", f"{jars}/*"]  # fmt: skip
        self._listeners = listeners
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def servers(self) -> str:
        return f"{self._host}:{self._listeners['PLAIN']}"

    @property
    def sasl(self) -> str:
        return f"127.0.0.1:{self._listeners['SASL']}"

    @property
    def tls(self) -> str:
        return f"127.0.0.1:{self._listeners['TLS']}"

    def format(self, cluster: str = CLUSTER_ID) -> None:
        """Prepare the storage of a broker of the cluster that has none yet."""
        command = [*self._java, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", self._properties()]
        done = subprocess.run(command, check=False, capture_output=True)  # noqa: S603 - our own command
        if done.returncode:
            raise NoBrokerError(f"Kafka's storage cannot be formatted: {done.stderr.decode(errors='replace')[-500:]}")

    def start(self) -> None:
        """Start it and wait until it serves: it opens its port only then."""
        self.launch()
        self.wait()

    def launch(self) -> None:
        """Start it."""
        with self._log.open("ab") as out:
            self._process = subprocess.Popen([*self._java, "kafka.Kafka", self._properties()], stdout=out, stderr=out)  # noqa: S603
        with suppress(PermissionError):  # as the system's own processes: brokers that starve elect leaders all the time
            os.setpriority(os.PRIO_PROCESS, self._process.pid, PRIORITY)

    def wait(self) -> None:
        """Wait until it serves; one of several needs most of the others."""
        assert self._process is not None
        deadline = time.monotonic() + START_S
        while True:
            if self._process.poll() is not None or time.monotonic() > deadline:
                text = self._log.read_text(errors="replace")
                self.kill()
                raise NoBrokerError(f"Kafka does not start: {text[-500:]}")
            with socket.socket() as probe:
                if probe.connect_ex((self._host, self._listeners["PLAIN"])) == 0:
                    return
            time.sleep(0.05)

    def kill(self) -> None:
        """End it as a fault would: a controlled shutdown of the only broker waits for a quorum that is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def add_scram_user(self, name: str, password: str) -> None:
        """The SASL listener knows the user (SCRAM-SHA-256), too."""
        from confluent_kafka import admin  # noqa: PLC0415 - an extra

        credential = admin.ScramCredentialInfo(admin.ScramMechanism.SCRAM_SHA_256, 4_096)
        user = admin.UserScramCredentialUpsertion(name, credential, password.encode())
        client = admin.AdminClient({"bootstrap.servers": self.servers})
        client.alter_user_scram_credentials([user])[name].result(10)

    @contextmanager
    def hung(self) -> Iterator[None]:
        """The broker does not answer until the context ends."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def _properties(self) -> str:
        return str(self._folder / "server.properties")


def kafka_jars() -> Path:
    """Return the folder of Kafka's jars, fetched when they are not there. Processes that ask at once wait for one."""
    if shutil.which("java") is None:
        raise NoBrokerError("Kafka needs Java, and there is none (apt-get install openjdk-17-jre-headless)")
    folder = CACHE / f"kafka-{VERSION}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "kafka.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            _fetch(folder)
        _check(folder)
    return folder


def _fetch(folder: Path) -> None:
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise NoBrokerError("Kafka is fetched by the Ivy of pyspark, which is not installed")
    ivy = next((Path(found.origin).parent / "jars").glob("ivy-*.jar"))
    with tempfile.TemporaryDirectory(dir=CACHE) as work:
        # snappy-java and snakeyaml are of the type "bundle": Ivy leaves them out silently when it is not named.
        command = ["java", "-jar", str(ivy), "-settings", str(HERE / "ivysettings.xml"), "-ivy", str(HERE / "ivy.xml"),
                   "-cache", f"{work}/cache", "-types", "jar", "bundle",
                   "-retrieve", f"{work}/jars/[artifact]-[revision].[ext]"]  # fmt: skip
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=FETCH_S)  # noqa: S603 - our own command
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            raise NoBrokerError(f"the jars of Kafka {VERSION} cannot be fetched from Maven Central") from error
        shutil.move(f"{work}/jars", folder)


def _check(folder: Path) -> None:
    for line in (HERE / "jars.sha256").read_text().splitlines():
        wanted, name = line.split()
        jar = folder / name
        if not jar.is_file() or hashlib.sha256(jar.read_bytes()).hexdigest() != wanted:
            raise NoBrokerError(f"{jar} is missing or not the one that tests/kafka/jars.sha256 names; remove {folder}")


@contextmanager
def kafka_broker(
    certificate: tuple[str, str] | None = None,
    port: int | None = None,
    auto_create: bool = False,
    cluster: str = CLUSTER_ID,
) -> Iterator[Broker]:
    """Start a broker with no topics at a free port, or at `port`, and end it with the context.

    It has a TLS listener where there is a certificate and its key. With `auto_create` it creates topics when somebody
    asks for them, as brokers do unless they are configured. `cluster` is the id of the cluster.

    Raises:
        NoBrokerError: if none could be started.
    """
    jars = kafka_jars()
    folder = Path(tempfile.mkdtemp(prefix="cep-kafka-"))
    names = ["PLAIN", "SASL", *(["TLS"] if certificate is not None else [])]
    ports = {name: free_port() for name in (*names, "CONTROLLER")} | ({} if port is None else {"PLAIN": port})
    text = _properties(folder, ports, 1, {1: ports["CONTROLLER"]}, HERE_ALONE)
    text += f"\nauto.create.topics.enable={str(auto_create).lower()}\n"
    text += _SECURED.format(user=USER, password=PASSWORD)
    if certificate is not None:
        keystore = folder / "server.pem"
        keystore.write_text(Path(certificate[1]).read_text() + Path(certificate[0]).read_text())
        text += _TLS.format(keystore=keystore)
    (folder / "server.properties").write_text(text)
    broker = Broker(jars, folder, ports)
    try:
        broker.format(cluster)
        broker.start()
        yield broker
    finally:
        broker.kill()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def kafka_cluster(count: int = 3, host: str = HERE_ALONE, logs: Path | None = None) -> Iterator[tuple[Broker, ...]]:
    """Start brokers that copy each partition to all of them, at free ports of `host`, and end them with the context.

    What was written is kept as long as most of them live. What they log stays in the folder `logs`, if there is one.

    Raises:
        NoBrokerError: if they could not be started.
    """
    jars = kafka_jars()
    folder = Path(tempfile.mkdtemp(prefix="cep-kafka-"))
    controllers = {node: free_port() for node in range(1, count + 1)}
    brokers = []
    try:
        for node, controller in controllers.items():
            own = folder / str(node)
            own.mkdir()
            ports = {"PLAIN": free_port(), "CONTROLLER": controller}
            text = _properties(own, ports, node, controllers, host) + "\nauto.create.topics.enable=false\n"
            (own / "server.properties").write_text(text)
            brokers.append(Broker(jars, own, ports, host, None if logs is None else logs / f"broker-{node}.log"))
            brokers[-1].format()
        for broker in brokers:
            broker.launch()
        for broker in brokers:
            broker.wait()
        yield tuple(brokers)
    finally:
        for broker in brokers:
            broker.kill()
        shutil.rmtree(folder, ignore_errors=True)


def _properties(folder: Path, ports: dict[str, int], node: int, controllers: dict[int, int], host: str) -> str:
    """Return the configuration of a broker; `controllers` has the controller's port of each node."""
    others = [name for name in ports if name not in ("PLAIN", "CONTROLLER")]
    copies = len(controllers)
    return (HERE / "server.properties.template").read_text().format(
        node=node, port=ports["PLAIN"], controller_port=ports["CONTROLLER"], directory=folder, host=host,
        voters=",".join(f"{one}@{host}:{port}" for one, port in controllers.items()),
        more_listeners="".join(f",{name}://{host}:{ports[name]}" for name in others),
        copies=copies, in_sync=copies // 2 + 1,
    )  # fmt: skip
