"""`cep demo`: run the flights sample on a temporary system."""

from __future__ import annotations

import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
from tqdm import tqdm

from cep_cli.develop.events import watermark_of
from cep_cli.errors import CommandRefusedError, with_readable_errors
from cep_cli.plan_commands.plans import wait_until_connected
from cep_cli.system.local_system import LocalSystem, Ports
from cep_common.clock import SystemClock
from cep_common.errors import CepError
from cep_worker.formats.files.event_files import count_events, read_events
from cep_worker.ingest.event_sender import EventSender, fetch_schema
from topology.events.frames import event_rows
from topology.links.event_listener import EventListener

DEPLOY_TIMEOUT_S = 300.0
"""Seconds; the first start after an installation compiles the engine's loops, which may take minutes."""
RESULT_TIMEOUT_S = 120.0
QUIET_S = 2.5
"""How long the counters of the topology must agree and be unchanged until results count as complete."""

BATCH_ROWS = 200
LISTEN_MS = 200
BAR_S = 0.2 if sys.stderr.isatty() else 2.0
"""How often the progress bar is drawn; in a log, less often."""

TIMESTAMP_FIELD = "ts"
FLIGHTS = Path(__file__).parent / "flights"
"""samples/flights, to which this package has a link."""


@dataclass(frozen=True, slots=True)
class DemoSample:
    """A folder with one plan and, for each imported stream, a Parquet file with its name in lower case."""

    folder: Path

    @property
    def text(self) -> str:
        """The SiddhiQL text of the sample's plan."""
        return next(self.folder.glob("*.siddhiql")).read_text(encoding="utf-8")

    def file(self, stream: str) -> str:
        """Return the path of the Parquet file with the events of `stream`."""
        return str(self.folder / f"{stream.lower()}.parquet")


@click.command("demo")
@click.option(
    "--sample",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=FLIGHTS,
    help="The folder of the plan and its events; by default the flights that come with the package.",
)
@click.option("--seconds", type=float, default=20.0, show_default=True, help="Time over which to send the events.")
@with_readable_errors
def demo_command(sample: Path, seconds: float) -> None:
    """Start a system, deploy the sample plan, send a month of real events, and show the results."""
    folder = Path(tempfile.mkdtemp(prefix="cep-demo-"))
    try:
        click.echo("starting manager, driver (Spark) and worker …")
        with LocalSystem(folder, Ports.free(), say=click.echo) as system:
            counts = Demo(system, DemoSample(sample), seconds).run()
        click.echo("stopped")
    except BaseException:
        click.echo(f"the logs are in {folder}", err=True)
        raise
    shutil.rmtree(folder)
    for stream, count in counts.items():
        click.echo(f"{stream}: {count} events")


class Demo:
    """Sends a sample to a running system and collects the results."""

    def __init__(self, system: LocalSystem, sample: DemoSample, seconds: float) -> None:
        """Create a demo on a running system.

        Args:
            system: The system to deploy to.
            sample: The plan and its events.
            seconds: How long to send events, in seconds.
        """
        self._system = system
        self._sample = sample
        self._seconds = seconds
        self._counts: dict[str, int] = {}
        self._stop_listening = threading.Event()
        self._failures: list[BaseException] = []

    def run(self) -> dict[str, int]:
        """Return the number of results of every exported stream, in order of definition."""
        client = self._system.client
        started = time.monotonic()
        plan = client.deploy(self._sample.text, replace=False)["plan"]
        details = wait_until_connected(client, plan, DEPLOY_TIMEOUT_S)
        click.echo(f"{plan} is active, all connected, after {time.monotonic() - started:.1f} s")
        click.echo(f"console: {client.url}/plans/{plan}")
        exported = [binding["stream"] for binding in details["exported"]]
        imported = [binding["stream"] for binding in details["imported"]]
        self._counts = dict.fromkeys(exported, 0)
        listeners = [EventListener(self._system.egress, f"{plan}/{stream}") for stream in exported]
        threads = [
            self._thread(self._listen, stream, listener) for stream, listener in zip(exported, listeners, strict=True)
        ]
        try:
            sent = self._send_all(plan, imported)
            self._await_results(plan, sent)
        finally:
            self._stop_listening.set()
            for thread in threads:
                thread.join()
        click.echo(f"console: {client.url}/plans/{plan}")
        return self._counts

    def _send_all(self, plan: str, imported: list[str]) -> int:
        """Send all streams concurrently at a common pace, and return the number of events."""
        total = sum(count_events(self._sample.file(stream)) or 0 for stream in imported)
        with tqdm(total=total, unit=" events", file=sys.stderr, mininterval=BAR_S) as bar:
            schemas = {stream: fetch_schema(self._system.worker_http, f"{plan}/{stream}") for stream in imported}
            senders = {stream: EventSender(self._system.ingress, schema, "demo") for stream, schema in schemas.items()}
            threads = [self._thread(self._send, stream, sender, bar) for stream, sender in senders.items()]
            for thread in threads:
                thread.join()
        self._raise_failure()
        return total

    def _send(self, stream: str, sender: EventSender, bar: Any) -> None:
        with sender:
            for batch in self._paced(stream, sender):
                sender.send(batch, watermark_of(batch))
                bar.update(batch.num_rows)
            sender.mark_idle()

    def _paced(self, stream: str, sender: EventSender) -> Iterator[pa.RecordBatch]:
        """Yield the stream's batches, each when its share of the time has passed."""
        file = self._sample.file(stream)
        total = count_events(file) or 1
        start, rows = time.monotonic(), 0
        for batch in read_events(file, sender.schema, SystemClock().now_ms, TIMESTAMP_FIELD, BATCH_ROWS):
            due = start + self._seconds * rows / total
            time.sleep(max(0.0, due - time.monotonic()))
            yield batch
            rows += batch.num_rows

    def _listen(self, stream: str, listener: EventListener) -> None:
        say = tqdm.write if sys.stderr.isatty() else click.echo
        with listener:
            while not self._stop_listening.is_set():
                batch = listener.receive(LISTEN_MS)
                if batch is not None:
                    self._counts[stream] += batch.num_rows
                    for event in event_rows(batch):
                        say(f"{stream} {_in_words(event)}")

    def _await_results(self, plan: str, sent: int) -> None:
        """Wait until the topology has processed `sent` events and every result has arrived."""
        deadline = time.monotonic() + RESULT_TIMEOUT_S
        last: tuple[int, ...] = ()
        since = time.monotonic()
        while True:
            self._raise_failure()
            nodes = self._system.client.topology(plan)["nodes"]
            received = sum(node["received"] for node in nodes if node["kind"] == "receiver")
            waiting = sum(node["waiting"] for node in nodes)
            published = sum(node["emitted"] for node in nodes if node["kind"] == "publisher")
            state = (received, waiting, published, sum(self._counts.values()))
            if state != last:
                last, since = state, time.monotonic()
            complete = received == sent and waiting == 0 and published == sum(self._counts.values())
            if complete and time.monotonic() - since >= QUIET_S:
                return
            if time.monotonic() > deadline:
                raise CommandRefusedError(
                    f"the results are not complete after {RESULT_TIMEOUT_S:.0f} s: {state} of {sent}"
                )
            time.sleep(LISTEN_MS / 1000)

    def _thread(self, target: Any, *arguments: Any) -> threading.Thread:
        def run() -> None:
            try:
                target(*arguments)
            except (CepError, OSError, pa.ArrowException) as error:
                self._failures.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return thread

    def _raise_failure(self) -> None:
        if self._failures:
            raise self._failures[0]


def _in_words(event: dict[str, object]) -> str:
    time_ms = event.pop("_timestamp")
    moment = time.strftime("%Y-%m-%d %H:%M", time.gmtime(int(str(time_ms)) / 1000))
    return f"{moment} " + " ".join(f"{name}={_value(value)}" for name, value in event.items())


def _value(value: object) -> str:
    return f"{value:.1f}" if isinstance(value, float) else str(value)
