"""A driver process with Spark, and the manager that it registers at, whom the test plays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import zmq

from cep_cli.system.processes import LEAVES_WITH_PARENT
from cep_common.ids import PlanKey
from cep_common.protocol.drivers import DriverRegistered, KillTopology, RegisterDriver, SubmitTopology, TopologyReport
from cep_common.protocol.registry import EndpointRegistered, Message, RegisterEndpoint, Rejected
from cep_common.protocol.tasks import RegisterTask, TaskRegistered
from cep_common.sockets.transport import ControlServer
from query_plan.builder import build
from query_plan.xml import write_xml
from siddhi.analysis.analyser import analyse
from siddhi.language.parser import parse

HEARTBEAT_MS, LEASE_MS = 200, 3_000
READY_S = 180.0
PATIENCE_S = 120.0
"""Far beyond what anything here takes on a machine that does nothing else."""
LEAVE_S = 30.0
PLAN = """@Plan:name('{name}')
@Import('A:1.0.0') define stream A (number long);
@Export('Out:1.0.0') define stream Out (number long);
@info(name='all') @dist(execGroup='all', parallel='3') from A select number insert into Out;
"""


@dataclass
class Desk:
    """Where the manager would sit. `until` answers what comes in until something is so; all times in seconds."""

    server: ControlServer
    driver: subprocess.Popen[bytes]
    log: Path
    peer: bytes = b""
    latest: RegisterDriver | None = None
    history: list[RegisterDriver] = field(default_factory=list)
    tasks: dict[tuple[str, int, int], RegisterTask] = field(default_factory=dict)
    stale: set[tuple[str, int]] = field(default_factory=set)
    refusal: Rejected | None = None
    token: int = 0

    def submit(self, name: str, epoch: int = 1, workers: int = 1, **fields: object) -> None:
        """A new plan, whatever was known by its name before."""
        text = write_xml(build(analyse(parse(PLAN.format(name=name)))))
        begun = {"restore": "none", **fields}
        self.push(SubmitTopology(PlanKey(-1234, name), epoch, text, workers, **begun))  # type: ignore[arg-type]

    def kill(self, name: str, epoch: int = 0) -> None:
        self.push(KillTopology(PlanKey(-1234, name), epoch))

    def push(self, order: Message, token: int | None = None) -> None:
        """Gives an order under the desk's token, or another one."""
        given = msgspec.structs.replace(order, token=self.token if token is None else token)
        self.server.send(self.peer, given)

    def report(self, name: str, epoch: int = 1) -> TopologyReport | None:
        """What the driver said last of the topology."""
        found = self.latest.topologies if self.latest is not None else ()
        return next((one for one in found if (one.key.plan, one.epoch) == (name, epoch)), None)

    def state(self, name: str, epoch: int = 1) -> str:
        report = self.report(name, epoch)
        return report.state if report is not None else "gone"

    def reason(self, name: str, epoch: int = 1) -> str:
        report = self.report(name, epoch)
        return report.reason if report is not None else ""

    def processes(self, name: str, epoch: int = 1) -> list[int]:
        """The processes of the topology's tasks that have registered."""
        return [task.process_id for key, task in sorted(self.tasks.items()) if key[:2] == (name, epoch)]

    def until(self, reached: Callable[[], object], within_s: float = PATIENCE_S) -> float:
        """Answers until `reached`; gives how long that took."""
        since = time.monotonic()
        while not reached():
            waited_s = time.monotonic() - since
            assert waited_s < within_s, f"after {waited_s:.0f} s: {self.latest}; {self.log}:\n{self._last_lines()}"
            if self.server.socket.poll(50):
                peer, envelope = self.server.receive()
                self.server.send(peer, self._answer(peer, envelope.message), envelope.correlation)
        return time.monotonic() - since

    def until_started(self, name: str, epoch: int = 1, workers: int = 1, within_s: float = PATIENCE_S) -> list[int]:
        """The topology runs and all its tasks have registered since; gives their processes."""
        for key in [key for key in self.tasks if key[:2] == (name, epoch)]:
            del self.tasks[key]
        self.until(
            lambda: self.state(name, epoch) == "running" and len(self.processes(name, epoch)) == workers, within_s
        )
        return self.processes(name, epoch)

    def clear(self) -> None:
        """Everything is killed and gone."""

        def gone() -> bool:
            """Orders to a driver that has just connected again are lost, so they are given until they are followed."""
            left = self.latest.topologies if self.latest is not None else ()
            for report in left:
                self.kill(report.key.plan)
            return not left

        self.until(gone)
        self.tasks.clear()
        self.history.clear()

    def _answer(self, peer: bytes, message: Message) -> Message:
        match message:
            case RegisterDriver():
                if self.refusal is not None:
                    return self.refusal
                self.peer, self.latest = peer, message
                self.history.append(message)
                return DriverRegistered(HEARTBEAT_MS, LEASE_MS, self.token)
            case RegisterTask(key=key, epoch=epoch, task=task):
                if (key.plan, epoch) in self.stale:
                    return Rejected("stale-epoch", f"epoch {epoch} is over")
                self.tasks[key.plan, epoch, task] = message
                return TaskRegistered(HEARTBEAT_MS, LEASE_MS)
            case RegisterEndpoint():
                return EndpointRegistered(HEARTBEAT_MS, LEASE_MS)
        return Rejected("no-endpoint", "there is no worker here")

    def _last_lines(self) -> str:
        return self.log.read_text(errors="replace")[-3_000:]


@contextmanager
def driver_at_desk(folder: Path, settings: Mapping[str, str]) -> Iterator[Desk]:
    """A driver of these settings (environment variables) that has registered; it has left when the context ends."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    server = ControlServer(context, "127.0.0.1", 0)
    endpoint = server.socket.getsockopt_string(zmq.LAST_ENDPOINT).removeprefix("tcp://")
    log = folder / "driver.log"
    environment = {
        **os.environ,
        LEAVES_WITH_PARENT: "1",
        "CEP_DRIVER__MANAGERS": f"[{endpoint}]",
        "CEP_DRIVER__CHECKPOINT__LOCATION": str(folder / "checkpoints"),
        **settings,
    }
    with log.open("wb") as output:
        driver = subprocess.Popen(
            [sys.executable, "-m", "cep_cli", "driver"], env=environment, stdin=subprocess.DEVNULL, stdout=output,
            stderr=output, start_new_session=True,
        )  # fmt: skip
    desk = Desk(server, driver, log)
    try:
        desk.until(lambda: desk.latest is not None or driver.poll() is not None, READY_S)
        assert driver.poll() is None, log.read_text(errors="replace")[-3_000:]
        yield desk
    finally:
        driver.send_signal(signal.SIGTERM)
        driver.send_signal(signal.SIGCONT)
        try:
            driver.wait(LEAVE_S)
        except subprocess.TimeoutExpired:
            driver.kill()
            driver.wait()
        server.close()
        context.destroy(linger=0)


def lives(process_id: int) -> bool:
    """True while there is a process of this id that has not ended."""
    try:
        text = Path(f"/proc/{process_id}/stat").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):  # the latter when it ends between the opening and the reading
        return False
    return text.rpartition(")")[2].split()[0] != "Z"
