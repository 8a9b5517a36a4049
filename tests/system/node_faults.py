"""Two nodes on a real PostgreSQL are hurt in every way, one fault after the other, under load; every count stays exact.

    make ha-faults FAULTS=50 SEED=1

Connections to the database, and between the nodes, run through cables that can be cut: what is sent then is lost, as in
a network that drops packets. The table shows what happened and how long it took. More than one active node at any time,
a lost event, or one that was counted twice ends the run with an error.
"""

from __future__ import annotations

import os
import random
import resource
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import yaml

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2]))  # before tests/, which has folders of the same names

from free_ports import free_port
from postgresql_server import postgresql_server

from cep_cli.node.demo import PLAN, check, results
from cep_cli.node.pair import NodePair, PairFeeder, PairNode
from cep_cli.system.local_system import LocalSystemError
from cep_common.nodes.files import NodeRole
from cep_common.process.priority import raise_process_priority

FAULTS = int(os.environ.get("CEP_NODE_FAULTS", "50"))
SEED = int(os.environ.get("CEP_NODE_SEED", "1"))
MOST_S = float(os.environ.get("CEP_NODE_SECONDS", "3600"))
FIRST_S = 300.0
HANG_S = 10.0
DOWN_S = float(os.environ.get("CEP_NODE_DOWN_S", "60"))
"""How long the database is away."""
CUT_S = 8.0
FAILS_S = 5.0
"""How long a disk takes nothing."""
QUIET_S = 1.0
RECOVER_S = 180.0


class Cable:
    """Carries connections to 127.0.0.1 or another host until it is cut; then nothing arrives, and nobody is told."""

    def __init__(self, host: str, target: int, listens_at: int) -> None:
        self._target = (host, target)
        self._whole = threading.Event()
        self._whole.set()
        self._server = socket.create_server((host, listens_at))
        self._broken: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @contextmanager
    def cut(self) -> Iterator[None]:
        """Let nothing through until the context ends; connections that lost something are broken then."""
        self._whole.clear()
        try:
            yield
        finally:
            self._whole.set()
            broken, self._broken = self._broken, []
            for one in broken:
                _break(one)

    def _accept(self) -> None:
        while True:
            near, _ = self._server.accept()
            threading.Thread(target=self._connect, args=(near,), daemon=True).start()

    def _connect(self, near: socket.socket) -> None:
        self._whole.wait()
        try:
            far = socket.create_connection(self._target)
        except OSError:
            near.close()
            return
        for source in (near, far):
            source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for source, sink in ((near, far), (far, near)):
            threading.Thread(target=self._carry, args=(source, sink), daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):  # the other direction has broken it
            while data := source.recv(65_536):
                if not self._whole.is_set():
                    self._broken += [source, sink]
                    self._whole.wait()
                    return
                sink.sendall(data)
        _break(source)
        _break(sink)


def _break(one: socket.socket) -> None:
    with suppress(OSError):  # it is closed
        one.shutdown(socket.SHUT_RDWR)
    one.close()


class Witness(threading.Thread):
    """Looks at both nodes all the time: there may never be two active ones."""

    def __init__(self, pair: NodePair) -> None:
        super().__init__(daemon=True)
        self._pair = pair
        self.two_active = 0
        self.fault = ""
        """What is being done to the nodes."""
        self.seen: dict[str, tuple[NodeRole | None, ...]] = {}
        """The roles at the first such look of every fault."""

    def run(self) -> None:
        while True:
            first, second = self._pair.nodes
            if first.is_active() and second.is_active() and first.is_active():
                self.two_active += 1
                self.seen.setdefault(self.fault, (first.role, second.role))
            time.sleep(0.005)


@dataclass
class Rig:
    """The pair, and what can be cut."""

    pair: NodePair
    databases: dict[str, Cable]
    syncs: dict[str, Cable]

    def cut(self, *cables: Cable, seconds: float) -> None:
        with ExitStack() as cuts:
            for cable in cables:
                cuts.enter_context(cable.cut())
            time.sleep(seconds)


Fault = Callable[[Rig, PairNode, random.Random], str]


def kill(rig: Rig, node: PairNode, _: random.Random) -> str:
    node.kill()
    return node.name


def hang(rig: Rig, node: PairNode, _: random.Random) -> str:
    node.hang()
    time.sleep(HANG_S)
    node.wake()
    return node.name


def kill_process(rig: Rig, node: PairNode, chosen: random.Random) -> str:
    _, *processes = node.processes()
    by_name = {name: one for one in processes for name in ("manager", "driver", "worker") if _runs(one, name)}
    name = chosen.choice(sorted(by_name))
    os.kill(by_name[name], 9)
    return f"{name} of {node.name}"


def _runs(process: int, name: str) -> bool:
    try:
        return name.encode() in Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False


def fail_disk(rig: Rig, node: PairNode, _: random.Random) -> str:
    """Let no file of the node's worker grow."""
    worker = next(one for one in node.processes() if _runs(one, "worker"))
    with suppress(ProcessLookupError):  # it has ended, and the one that follows may write
        resource.prlimit(worker, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        time.sleep(FAILS_S)
        resource.prlimit(worker, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    return f"{node.name} for {FAILS_S:.0f} s"


def cut_nodes(rig: Rig, node: PairNode, _: random.Random) -> str:
    rig.cut(*rig.syncs.values(), seconds=CUT_S)
    return "between the nodes"


def cut_database(rig: Rig, node: PairNode, _: random.Random) -> str:
    rig.cut(rig.databases[node.name], seconds=CUT_S)
    return node.name


def cut_both(rig: Rig, node: PairNode, _: random.Random) -> str:
    rig.cut(rig.databases[node.name], *rig.syncs.values(), seconds=CUT_S)
    return f"{node.name} from all"


def database_down(rig: Rig, node: PairNode, _: random.Random) -> str:
    rig.cut(*rig.databases.values(), seconds=DOWN_S)
    return f"for {DOWN_S:.0f} s"


def switch(rig: Rig, node: PairNode, _: random.Random) -> str:
    node.client.switch_nodes()
    rig.pair.wait(rig.pair.other(node).is_active, "the other node is active")
    return node.name


def restart(rig: Rig, node: PairNode, _: random.Random) -> str:
    active = rig.pair.active() or node
    before = node.processes()
    active.client.order_node(node.name, "restart")
    rig.pair.wait(lambda: set(node.processes()[1:]).isdisjoint(before), f"other processes of {node.name}")
    return node.name


def restart_both(rig: Rig, node: PairNode, _: random.Random) -> str:
    before = {one.name: one.processes() for one in rig.pair.nodes}
    node.client.restart_nodes()
    for one in (rig.pair.other(node), node):
        rig.pair.wait(
            lambda one=one: set(one.processes()[1:]).isdisjoint(before[one.name]), f"other processes of {one.name}"
        )
    return "one after the other"


KINDS: dict[str, tuple[Fault, bool]] = {
    "kill -9 of the active node": (kill, True),
    "kill -9 of the passive node": (kill, False),
    "the active node hangs": (hang, True),
    "the passive node hangs": (hang, False),
    "a process of the active node dies": (kill_process, True),
    "a process of the passive node dies": (kill_process, False),
    "disk of the active node fails": (fail_disk, True),
    "disk of the passive node fails": (fail_disk, False),
    "network between the nodes": (cut_nodes, True),
    "network from the active node to the database": (cut_database, True),
    "network from the passive node to the database": (cut_database, False),
    "network from the active node to all": (cut_both, True),
    "planned switch": (switch, True),
    "restart of the active node": (restart, True),
    "restart of the passive node": (restart, False),
    "restart of both nodes": (restart_both, True),
    "database down": (database_down, True),
}


def build(folder: Path, url: str) -> Rig:
    """Return two nodes whose connections run through cables."""
    names = ("control", "console", "http", "ingress", "egress", "guard", "sync")
    ports = {name: free_port() for name in names}
    pair = NodePair(folder, ports)
    database = int(url.rpartition("/")[0].rpartition(":")[2])
    databases: dict[str, Cable] = {}
    syncs: dict[str, Cable] = {}
    for node in pair.nodes:
        values = yaml.safe_load(node.file.read_text(encoding="utf-8"))
        at, sync = free_port(), free_port()
        databases[node.name] = Cable("127.0.0.1", database, at)
        syncs[node.name] = Cable(node.host, ports["sync"], sync)
        values["cluster.config"]["strategyConfig"]["datasource"] = url.replace(f":{database}/", f":{at}/")
        values["deployment.config"]["eventSyncServer"]["advertisedPort"] = sync
        node.file.write_text(yaml.safe_dump(values), encoding="utf-8")
    return Rig(pair, databases, syncs)


def hurt(rig: Rig, feeder: PairFeeder, kind: str, chosen: random.Random) -> str:
    """Do what `kind` says and return a line about it, once all is well again. Raises LocalSystemError."""
    fault, at_active = KINDS[kind]
    active = rig.pair.await_protected()
    rig.pair.wait(lambda: {one["role"] for one in active.client.nodes()} == {"active", "passive"}, "both are there")
    node = active if at_active else rig.pair.other(active)
    feeder.longest_gap_s, began = 0.0, time.monotonic()
    what = fault(rig, node, chosen)
    took = time.monotonic() - began
    rig.pair.wait(lambda: feeder.last_accepted_at > began + took + QUIET_S, f"{kind}: events are taken", RECOVER_S)
    gap = feeder.longest_gap_s
    if node.process is None:
        node.start()
    now = rig.pair.wait(rig.pair.active, "a node is active")
    rig.pair.await_protected()
    well = time.monotonic() - began
    after = "the same node is active" if now is active else f"{now.name} took over"
    return f"{kind:46} {what:22} no event taken for {gap:5.1f} s  protected after {well:5.1f} s  {after}"


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> None:
    """Hurt the nodes FAULTS times. Raises LocalSystemError when something was lost, came twice, or two were active."""
    chosen, folder = random.Random(SEED), Path(tempfile.mkdtemp(prefix="cep-faults-"))  # noqa: S311 - a seed for tests
    say(f"seed {SEED}, {FAULTS} faults; logs in {folder}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended before all faults were made"))  # and end the nodes
    raise_process_priority("realtime")  # the nodes do so: cables and the database must not be slower than them
    ends = time.monotonic() + MOST_S
    with postgresql_server() as server:
        rig = build(folder, server.emptied())
        witness, file = Witness(rig.pair), folder / "alerts.ndjson"
        with rig.pair:
            rig.pair.start()
            witness.start()
            rig.pair.await_protected().client.deploy(PLAN.format(file=file), replace=False)
            feeder = PairFeeder(rig.pair, "Readings", pause_s=0.02)
            feeder.start()
            rig.pair.wait(lambda: results(file), "the first alert", FIRST_S)
            kinds = [one for one in os.environ.get("CEP_NODE_FIRST", "").split(",") if one]
            for number in range(1, FAULTS + 1):
                kinds = kinds or chosen.sample(sorted(KINDS), len(KINDS))  # each of them once in every round
                if time.monotonic() > ends:
                    say(f"out of time after {number - 1} faults")
                    break
                kind = kinds.pop()
                witness.fault = f"{number} {kind}"
                say(f"{number:3} {hurt(rig, feeder, kind, chosen)}")
                time.sleep(QUIET_S)
            feeder.close()
            check(feeder, lambda: results(file), rig.pair, say)
            if not witness.is_alive():
                raise LocalSystemError("nobody looked for two active nodes until the end: the witness has failed")
    say(f"seen two active nodes: {witness.two_active} times")
    for fault, roles in witness.seen.items():
        say(f"{fault}: {roles}")
    if witness.two_active:
        raise LocalSystemError("two nodes were active at one time")


if __name__ == "__main__":
    main()
