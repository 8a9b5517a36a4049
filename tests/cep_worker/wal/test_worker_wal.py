"""An accepted event is never lost: receivers that die, workers that restart, disks that are full, plans that go."""

from __future__ import annotations

import errno
import json
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
import requests
import zmq
from free_ports import free_port
from test_worker_process import RUN
from worker_world import DEPARTURES, EVENT, KEY, PLAN, FakeReceiver, World, departures, now_ms, until, values

from cep_common.errors import ConfigError, InputError, PeerError
from cep_common.ids import PlanKey
from cep_common.protocol.links import Data, OpenLink
from cep_common.protocol.registry import RegisterWorker, RequestEndpoint, StreamBinding
from cep_common.security.roles import SocketKind
from cep_worker.config import InflowConfig, WalConfig, WorkerHttpConfig
from cep_worker.inflows.wal import segment
from cep_worker.worker import Worker
from topology.links.server import FrameArrived, LinkServer

PLAYBACK = msgspec.structs.replace(PLAN, playback=True)


class Receiver(FakeReceiver):
    """A receiver stage that remembers positions in the logs of workers, as long as its `taken` is handed on."""

    def __init__(self, context: zmq.Context[Any], taken: dict[str, int] | None = None) -> None:
        self.openings = []
        self.frames = []
        self.caught_up = 0
        self.acknowledge = True
        self.taken: dict[str, int] = {} if taken is None else taken
        self.server = LinkServer.listen(
            context, SocketKind.RECEIVER, "127.0.0.1", free_port(), 65_536, self._accept, resume=self._resume
        )

    def secure(self, position: int) -> None:
        """A checkpoint holds the senders' logs up to `position`."""
        for link in self.server.links.values():
            self.server.secure(link, position)

    def positions(self) -> list[int]:
        return [
            frame.message.position for frame in self.frames if isinstance(frame.message, Data) and frame.message.rows
        ]

    def _resume(self, opening: OpenLink) -> tuple[int, bool]:
        return self.taken.get(opening.log, 0), False

    def _take(self, event: Any) -> None:
        super()._take(event)
        if isinstance(event, FrameArrived) and isinstance(event.message, Data):
            log = event.link.opening.log
            self.taken[log] = max(self.taken.get(log, 0), event.message.position)


@pytest.fixture
def receiver_of(context: zmq.Context[Any]) -> Iterator[Callable[..., Receiver]]:
    made: list[Receiver] = []

    def make(world: World, taken: dict[str, int] | None = None) -> Receiver:
        made.append(Receiver(context, taken))
        world.manager.receivers["Departures"] = made[-1].endpoint
        return made[-1]

    yield make
    for receiver in made:
        receiver.close()


def post(world: World, *timestamps: int) -> requests.Response:
    events = [{**EVENT, "_timestamp": time} for time in timestamps]
    return requests.post(world.url("/events/Departures"), json=events, timeout=5)


def times(receiver: FakeReceiver) -> list[int]:
    return [row[0] for row in receiver.rows()]


def restart(world: World) -> None:
    assert world.worker is not None
    world.worker.stop()
    world.worker = None
    world.worker = Worker(world.config)
    world.worker.start()


def test_what_was_accepted_outlives_the_worker_and_comes_once(
    world: World, receiver_of: Callable[..., Receiver]
) -> None:
    world.start(PLAN)
    for number in range(5):
        assert post(world, number).status_code == 202
    restart(world)
    until(lambda: world.health()["plans"] and world.inflow().waiting_events == 5)
    assert post(world, 5).status_code == 202
    receiver = receiver_of(world)
    until(lambda: len(times(receiver)) == 6, receiver)
    restart(world)
    until(lambda: len(receiver.openings) == 2, receiver)
    assert post(world, 6).status_code == 202
    until(lambda: 6 in times(receiver), receiver)
    assert times(receiver) == list(range(7))
    assert receiver.positions() == sorted(set(receiver.positions()))
    assert len({opening.log for opening in receiver.openings}) == 1


def test_a_receiver_that_begins_at_a_checkpoint_gets_again_what_followed_it(
    world: World, receiver_of: Callable[..., Receiver]
) -> None:
    world.start(PLAYBACK)
    first = receiver_of(world)
    for number in range(10):
        assert post(world, number).status_code == 202
        until(lambda number=number: len(times(first)) == number + 1, first)
    assert first.positions() == list(range(1, 11))
    log = first.openings[0].log
    first.close()
    second = receiver_of(world, {log: 4})
    until(lambda: len(times(second)) == 6, second)
    assert post(world, 10).status_code == 202
    until(lambda: len(times(second)) == 7, second)
    assert times(second) == list(range(4, 11))
    frames = [frame for frame in second.frames if isinstance(frame.message, Data)]
    assert all(frame.message.watermark_ms == values(frame.batch)[-1][0] for frame in frames), "as when they came first"


def test_a_receiver_that_has_everything_gets_nothing_again(world: World, receiver_of: Callable[..., Receiver]) -> None:
    world.start(PLAN)
    first = receiver_of(world)
    first.acknowledge = False
    post(world, 1, 2, 3)
    until(lambda: len(times(first)) == 3, first)
    first.close()
    second = receiver_of(world, first.taken)
    post(world, 4)
    until(lambda: second.frames, second)
    assert times(second) == [4]


def test_what_is_secured_is_deleted_and_never_sent_again(
    make_world: Callable[..., World], receiver_of: Callable[..., Receiver], tmp_path: Path
) -> None:
    wal = WalConfig(str(tmp_path / "wal"), segment_bytes=4_096, maximum_bytes=65_536)
    world = make_world(wal=wal)
    world.start(PLAN)
    receiver = receiver_of(world)
    for number in range(40):
        post(world, number)
    until(lambda: len(times(receiver)) == 40, receiver)
    files = list(Path(wal.path).glob("worker-1/-1234/KnockOnDelays/Departures/*.segment"))
    assert len(files) > 2
    receiver.secure(receiver.taken[receiver.openings[0].log])
    until(lambda: sum(path.exists() for path in files) == 1, receiver)
    receiver.close()
    restart(world)
    empty = receiver_of(world)
    until(lambda: empty.openings, empty)
    post(world, 40)
    until(lambda: empty.frames, empty)
    assert times(empty) == [40]


def test_an_outage_longer_than_memory_is_ridden_out(
    make_world: Callable[..., World], receiver_of: Callable[..., Receiver]
) -> None:
    world = make_world(inflow=InflowConfig(waiting_rows=20, batch_rows=10))
    world.start(PLAN)
    sender = world.sender()
    for number in range(300):
        sender.send(departures((number, "UA", number, None)))
    sender.flush(5_000)
    until(lambda: world.inflow().waiting_events == 300)
    receiver = receiver_of(world)
    for number in range(300, 400):
        sender.send(departures((number, "UA", number, None)))
        receiver.pump()
    until(lambda: len(times(receiver)) == 400, receiver)
    assert times(receiver) == list(range(400))
    until(lambda: (world.inflow().waiting_events, world.inflow().sent_events) == (0, 400), receiver)


def test_a_full_log_holds_sources_back_and_says_why(
    make_world: Callable[..., World], receiver_of: Callable[..., Receiver], tmp_path: Path
) -> None:
    wal = WalConfig(str(tmp_path / "wal"), segment_bytes=16_384, maximum_bytes=65_536)
    world = make_world(wal=wal)
    world.start(PLAN)
    accepted = 0
    while (answer := post(world, *range(accepted, accepted + 50))).status_code == 202:
        accepted += 50
    assert (answer.status_code, answer.json()["code"], answer.headers["Retry-After"]) == (429, "no-room", "1")
    sender = world.sender()
    sender.send(departures((9_999, "UA", 1, None)))
    with pytest.raises(PeerError, match="did not answer within"):
        sender.flush(200)
    until(lambda: "wal.maximum_bytes is 65536" in world.manager.last(RegisterWorker).plans[0].last_error)
    told = world.health()["plans"][0]["wal"][0]
    assert (told["stream"], told["full"], told["size_bytes"] >= 65_536) == ("Departures", True, True)

    receiver = receiver_of(world)
    until(lambda: len(times(receiver)) == accepted, receiver)
    receiver.secure(receiver.taken[receiver.openings[0].log])
    until(lambda: 9_999 in times(receiver), receiver)
    sender.flush(5_000)
    assert times(receiver) == [*range(accepted), 9_999], "what was answered with 429 was not kept, the rest was"
    until(lambda: world.manager.last(RegisterWorker).plans[0].last_error == "")


def test_what_would_fill_the_whole_log_is_refused_and_others_go_on(
    make_world: Callable[..., World], receiver_of: Callable[..., Receiver], tmp_path: Path
) -> None:
    wal = WalConfig(str(tmp_path / "wal"), segment_bytes=16_384, maximum_bytes=65_536)
    world = make_world(wal=wal, http=WorkerHttpConfig(port=free_port()))
    world.start(PLAN)
    answer = post(world, *range(2_500))
    assert (answer.status_code, answer.json()["code"]) == (413, "too-large")
    assert "wal.maximum_bytes is 65536; send fewer at once" in answer.json()["message"]
    sender = world.sender()
    sender.send(departures(*[(number, "UA", 1, None) for number in range(2_500)]))
    with pytest.raises(InputError, match="send fewer at once") as refused:
        sender.flush(5_000)
    assert refused.value.reason_code == "too-large"
    assert post(world, 1).status_code == 202
    receiver = receiver_of(world)
    until(lambda: times(receiver) == [1], receiver)


def test_a_full_disk_holds_sources_back_until_there_is_space(
    world: World, receiver_of: Callable[..., Receiver], monkeypatch: pytest.MonkeyPatch
) -> None:
    world.start(PLAN)
    assert post(world, 1).status_code == 202
    with monkeypatch.context() as disk:

        def full(*_: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        disk.setattr(segment.os, "posix_fallocate", full)
        large = departures(*[(number, "UA" * 500, number, None) for number in range(2, 2_000)])
        sender = world.sender()
        sender.send(large)
        with pytest.raises(PeerError, match="did not answer within"):
            sender.flush(200)
        until(lambda: "No space left on device" in world.reports()[0].last_error)
    receiver = receiver_of(world)
    until(lambda: len(times(receiver)) == 1_999, receiver)
    sender.flush(5_000)
    assert times(receiver) == list(range(1, 2_000))


def test_of_plans_that_share_a_stream_all_take_a_batch_or_none(
    make_world: Callable[..., World], receiver_of: Callable[..., Receiver], tmp_path: Path
) -> None:
    wide = (StreamBinding("D", "Departures:1.0.0", tuple(reversed(DEPARTURES))),)
    other = msgspec.structs.replace(PLAN, key=PlanKey(-1234, "Other"), imported=wide, exported=())
    world = make_world(wal=WalConfig(str(tmp_path / "wal"), segment_bytes=4_096, maximum_bytes=16_384))
    world.start(PLAN, other)
    second = Receiver(world.context)
    world.manager.receivers["D"] = second.endpoint
    accepted = 0
    refused = now_ms() + 5_000
    while (answer := post(world, accepted)).status_code == 202 or second.secure(2**60):  # the other plan's never fills
        accepted += 1
        second.pump()
        assert now_ms() < refused
    assert answer.json()["code"] == "no-room"
    first = receiver_of(world)
    until(lambda: len(times(first)) == accepted and len(times(second)) == accepted, first, second)
    second.close()
    assert times(first) == list(range(accepted))
    assert [row[0] for row in second.rows()] == list(range(accepted))


def test_a_plan_that_is_delivered_at_most_once_has_no_log(world: World, receiver_of: Callable[..., Receiver]) -> None:
    world.start(msgspec.structs.replace(PLAN, delivery="at-most-once"))
    receiver = receiver_of(world)
    post(world, 1)
    until(lambda: receiver.frames, receiver)
    assert (receiver.openings[0].log, receiver.positions()) == ("", [0])
    assert list(Path(world.config.wal.path).glob("worker-1/*/*/*")) == []


def test_logs_of_plans_that_were_undeployed_meanwhile_are_deleted_and_their_events_counted(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.start(PLAN)
    post(world, 1, 2, 3)
    folder = Path(world.config.wal.path) / "worker-1/-1234/KnockOnDelays/Departures"
    world.manager.stop()
    restart(world)
    pause = threading.Event()
    pause.wait(0.1)
    assert folder.is_dir(), "without a list of plans nothing is deleted"
    world.manager.deploy()
    with caplog.at_level(logging.ERROR):
        world.manager.start()
        until(lambda: not folder.exists())
    assert "accepted events are dropped, their plan was undeployed" in caplog.text
    assert "events=3" in caplog.text
    assert world.manager.last(RegisterWorker).orphans == ()


def test_a_manager_that_has_never_heard_of_a_plan_costs_none_of_its_events(
    world: World, receiver_of: Callable[..., Receiver]
) -> None:
    """Its database was emptied, or is an old copy: the plan comes back, and so do the events."""
    world.start(msgspec.structs.replace(PLAN, deployed_ms=5))
    post(world, 1, 2, 3)
    world.manager.lose()
    until(lambda: world.manager.last(RegisterWorker).orphans)
    (orphans,) = world.manager.last(RegisterWorker).orphans
    assert (orphans.kind, orphans.plan, orphans.stream, orphans.events) == ("log", KEY.plan, "Departures", 3)
    world.manager.lose(msgspec.structs.replace(PLAN, deployed_ms=5, epoch=9))
    until(lambda: world.reports() and world.reports()[0].epoch == 9)
    receiver = receiver_of(world)
    until(lambda: len(times(receiver)) == 3, receiver)
    assert times(receiver) == [1, 2, 3]
    until(lambda: not world.manager.last(RegisterWorker).orphans)


def test_what_is_set_aside_is_given_to_another_plan_of_the_name_once_or_discarded(
    world: World, receiver_of: Callable[..., Receiver]
) -> None:
    world.start(msgspec.structs.replace(PLAN, deployed_ms=5))
    for number in range(3):
        post(world, number)
    world.manager.lose()
    until(lambda: world.manager.last(RegisterWorker).orphans)
    wal = world.url("/wal")
    (entry,) = requests.get(wal, timeout=5).json()["entries"]
    assert (entry["kind"], entry["plan"], entry["stream"], entry["events"]) == ("log", KEY.plan, "Departures", 3)
    metrics = requests.get(world.url("/metrics"), timeout=5).text
    assert f'cep_orphaned_events{{kind="log",plan="{KEY.plan}",tenant="-1234"}} 3.0' in metrics
    assert requests.get(wal, params={"tenant": "7"}, timeout=5).json() == {"entries": []}
    refused = requests.post(f"{wal}/{entry['id']}/restore", timeout=5)
    assert (refused.status_code, refused.json()["code"]) == (400, "no-inflow"), refused.text
    world.manager.lose(msgspec.structs.replace(PLAN, deployed_ms=6, epoch=9))
    until(lambda: world.reports() and world.reports()[0].epoch == 9)
    assert requests.post(f"{wal}/nothing/restore", timeout=5).status_code == 404
    assert requests.post(f"{wal}/{entry['id']}/restore", params={"tenant": "7"}, timeout=5).status_code == 404
    restored = requests.post(f"{wal}/{entry['id']}/restore", timeout=5)
    assert (restored.status_code, restored.json()["events"], restored.json()["left"]) == (200, 3, 0), restored.text
    assert requests.get(wal, timeout=5).json() == {"entries": []}
    receiver = receiver_of(world)
    until(lambda: len(times(receiver)) == 3, receiver)
    post(world, 7)
    world.manager.lose()
    until(lambda: world.manager.last(RegisterWorker).orphans)
    (entry,) = requests.get(wal, timeout=5).json()["entries"]
    discarded = requests.post(f"{wal}/{entry['id']}/discard", timeout=5)
    assert discarded.status_code == 200, discarded.text
    until(lambda: not world.manager.last(RegisterWorker).orphans)


def test_a_worker_of_another_system_is_adopted_and_sets_aside_what_it_has(world: World) -> None:
    world.manager.system = "first"
    world.start(msgspec.structs.replace(PLAN, deployed_ms=5))
    post(world, 1, 2, 3)
    world.manager.system = "second"
    world.manager.lose()
    until(lambda: world.manager.last(RegisterWorker).refused_system == "second")
    assert world.manager.last(RegisterWorker).orphans == ()
    world.manager.adopts = True
    until(lambda: world.manager.last(RegisterWorker).orphans)
    assert world.manager.last(RegisterWorker).system == "second"
    assert [one.events for one in world.manager.last(RegisterWorker).orphans] == [3]


def test_a_manager_of_another_system_is_not_followed(world: World, receiver_of: Callable[..., Receiver]) -> None:
    world.manager.system = "first"
    world.start(PLAN)
    post(world, 1, 2, 3)
    world.manager.system = "second"
    world.manager.deploy()
    until(lambda: world.manager.last(RegisterWorker).refused_system == "second")
    assert len(world.health()["plans"]) == 1, "what runs continues"
    world.manager.system = "first"
    world.manager.removed = ()
    world.manager.lose(msgspec.structs.replace(PLAN, epoch=9))
    until(lambda: world.reports()[0].epoch == 9)
    until(lambda: world.manager.last(RegisterWorker).refused_system == "")
    receiver = receiver_of(world)
    until(lambda: len(times(receiver)) == 3, receiver)
    assert times(receiver) == [1, 2, 3]


def test_a_worker_whose_name_another_one_has_serves_nothing_and_keeps_what_it_has(world: World) -> None:
    world.start(PLAN)
    post(world, 1, 2, 3)
    world.manager.refuse.add(RegisterWorker.TYPE)
    world.manager.refusal = "worker-exists"
    until(lambda: not world.health()["plans"])
    assert post(world, 4).status_code == 404
    world.manager.refuse.clear()
    until(lambda: world.health()["plans"])
    until(lambda: world.reports()[0].inflow[0].waiting_events == 3)


def test_a_plan_that_is_deployed_anew_under_an_old_name_gets_nothing_of_the_former_one(
    world: World, receiver_of: Callable[..., Receiver]
) -> None:
    world.start(PLAN)
    post(world, 1)
    world.manager.deploy(msgspec.structs.replace(PLAN, epoch=8, deployed_ms=5))
    until(lambda: world.reports()[0].epoch == 8)
    receiver = receiver_of(world)
    post(world, 2)
    until(lambda: times(receiver), receiver)
    assert times(receiver) == [2]


def test_a_new_epoch_goes_on_from_what_its_receiver_names(world: World, receiver_of: Callable[..., Receiver]) -> None:
    world.start(PLAN)
    first = receiver_of(world)
    post(world, 1)
    post(world, 2)
    until(lambda: len(times(first)) == 2, first)
    del world.manager.receivers["Departures"]
    world.manager.deploy(msgspec.structs.replace(PLAN, epoch=8))
    until(lambda: world.reports()[0].epoch == 8, first)
    post(world, 3)
    second = receiver_of(world, {first.openings[0].log: 1})
    until(lambda: len(times(second)) == 2, second)
    assert times(second) == [2, 3]
    assert (second.openings[0].epoch, second.openings[0].log) == (8, first.openings[0].log)


def test_the_receiver_of_before_is_asked_for_again_in_the_same_epoch(
    world: World, receiver_of: Callable[..., Receiver]
) -> None:
    world.manager.attempt = 3
    world.start(PLAN)
    first = receiver_of(world)
    until(lambda: world.inflow().connected, first)
    assert first.openings[0].attempt == 3
    assert world.manager.last(RequestEndpoint).former == ""
    del world.manager.receivers["Departures"]
    first.close()
    until(lambda: world.manager.last(RequestEndpoint).former == "receiver#0")
    restart(world)
    world.manager.heard.clear()
    until(lambda: world.manager.last(RequestEndpoint))
    assert world.manager.last(RequestEndpoint).former == "receiver#0", "it alone knows all that it was sent"
    world.manager.deploy(msgspec.structs.replace(PLAN, epoch=8))
    until(lambda: world.manager.last(RequestEndpoint).epoch == 8)
    assert world.manager.last(RequestEndpoint).former == ""


@pytest.mark.parametrize("policy", ["always", "none"])
def test_every_policy_tells_sources_and_keeps_order(
    make_world: Callable[..., World], receiver_of: Callable[..., Receiver], tmp_path: Path, policy: str
) -> None:
    world = make_world(wal=WalConfig(str(tmp_path / "wal"), fsync=policy))  # type: ignore[arg-type]
    world.start(PLAN)
    receiver = receiver_of(world)
    sender = world.sender()
    for number in range(20):
        sender.send(departures((number, "UA", number, None)))
    sender.mark_idle()
    assert post(world, 20).status_code == 202
    sender.flush(5_000)
    until(lambda: len(times(receiver)) == 21, receiver)
    assert [time for time in times(receiver) if time < 20] == list(range(20))


def test_two_workers_do_not_share_a_log(world: World) -> None:
    world.start(PLAN)
    with pytest.raises(ConfigError, match=r"wal\.path: .*worker-1 is used by process"):
        Worker(world.config)


# ---- a process that is killed ---------------------------------------------------------------------------------------


class Load:
    """Posts numbered events without a pause on threads, and notes those that were answered with 202."""

    def __init__(self, world: World, threads: int) -> None:
        self._world = world
        self._stopping = False
        self._lock = threading.Lock()
        self._next = 0
        self.accepted: list[int] = []
        self._threads = [threading.Thread(target=self._run) for _ in range(threads)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopping = True
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        pause = threading.Event()
        with requests.Session() as session:
            while not self._stopping:
                with self._lock:
                    number, self._next = self._next, self._next + 1
                body = [{**EVENT, "_timestamp": number}]
                try:
                    answer = session.post(self._world.url("/events/Departures"), json=body, timeout=5)
                except requests.RequestException:
                    pause.wait(0.05)
                    continue
                if answer.status_code == 202:
                    self.accepted.append(number)


def start_process(world: World) -> subprocess.Popen[bytes]:
    config = json.dumps(msgspec.to_builtins(world.config))
    return subprocess.Popen(  # noqa: S603 - our own interpreter and text
        [sys.executable, "-c", RUN, config], env={**os.environ, "PYTHONPATH": os.getcwd()}
    )


@pytest.mark.cluster
def test_a_worker_that_is_killed_under_load_loses_nothing_that_it_accepted(
    world: World, receiver_of: Callable[..., Receiver]
) -> None:
    world.manager.plans = (PLAN,)
    world.manager.start()
    receiver = receiver_of(world)
    process = start_process(world)
    load = Load(world, threads=3)
    try:
        for kill in range(2):
            enough = len(load.accepted) + 150
            until(lambda enough=enough: len(load.accepted) >= enough, receiver, deadline_ms=30_000)
            if kill == 1:  # the topology is away as well: what comes now is on the worker's disk alone
                receiver.close()
                enough = len(load.accepted) + 150
                until(lambda enough=enough: len(load.accepted) >= enough, deadline_ms=30_000)
            process.send_signal(signal.SIGKILL)
            process.wait()
            if kill == 1:
                frames, receiver = receiver.frames, receiver_of(world, receiver.taken)
                receiver.frames = frames
            process = start_process(world)
        enough = len(load.accepted) + 50
        until(lambda: len(load.accepted) >= enough, receiver, deadline_ms=30_000)
        load.stop()
        accepted = set(load.accepted)
        until(lambda: accepted <= set(times(receiver)), receiver, deadline_ms=15_000)
    finally:
        load.stop()
        process.kill()
        process.wait()
    came = times(receiver)
    assert len(came) == len(set(came)), "each event once"
    assert receiver.positions() == sorted(set(receiver.positions())), "each position once, in order"
    assert isinstance(receiver.frames[0].batch, pa.RecordBatch)
