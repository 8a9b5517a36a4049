"""Commands that send events of a file to a stream and listen to a stream."""

from __future__ import annotations

import json
import sys
from typing import Any

import click
import pyarrow as pa
from tqdm import tqdm

from cep_cli.client.listening import StreamListener, why_quiet
from cep_cli.client.options import manager_options
from cep_cli.client.rest import ManagerClient
from cep_cli.errors import with_readable_errors
from cep_cli.terminal import printable
from cep_common.clock import SystemClock
from cep_common.errors import CepError, PeerError
from cep_common.ids import Endpoint
from cep_common.security.config import SecurityConfig
from cep_worker.formats.files.event_files import count_events, read_events
from cep_worker.ingest.event_sender import EventSender, fetch_schema
from siddhi.column_names import TIMESTAMP
from topology.events.frames import event_rows
from topology.links.event_listener import EventListener

KEYS_OPTION = click.option(
    "--keys",
    envvar="CEP_KEYS",
    default="",
    help="Folder with client.key_secret and worker.key, if the workers use keys.",
)


@click.command("send")
@click.argument("stream")
@click.argument("file")
@click.option(
    "--timestamp",
    help="Field with the event time in ms. Default: _timestamp, else ts, else the time of sending.",
)
@click.option(
    "--batch-rows",
    type=click.IntRange(1, 65_536),
    default=1_000,
    show_default=True,
    help="Number of events in each frame.",
)
@click.option("--worker", help="Name of the worker to send to. Default: the first one.")
@KEYS_OPTION
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@manager_options
@with_readable_errors
def send_command(
    stream: str,
    file: str,
    timestamp: str | None,
    batch_rows: int,
    worker: str | None,
    keys: str,
    as_json: bool,
    client: ManagerClient,
) -> None:
    """Send the events in FILE to the imported stream STREAM.

    FILE is Parquet, CSV, JSON or NDJSON by its suffix; `-` reads NDJSON from standard input and sends it as it arrives.
    """
    address = find_worker(client, worker)
    schema = fetch_schema(address["http_address"], stream, client.tenant, token=client.token)
    with (
        EventSender(
            endpoint(address["ingress"]), schema, sender="cep send", tenant=client.tenant, security=SecurityConfig(keys)
        ) as sender,
        tqdm(total=count_events(file), unit=" events", disable=as_json or not sys.stderr.isatty()) as bar,
    ):
        for batch in read_events(file, schema, SystemClock().now_ms, timestamp, batch_rows):
            sender.send(batch, watermark_of(batch))
            bar.update(batch.num_rows)
        sender.mark_idle()
        sender.flush()
        sent = sender.sent_rows
    click.echo(
        json.dumps({"stream": schema.stream, "sent": sent}) if as_json else f"{schema.stream}: {sent} events sent"
    )


@click.command("listen")
@click.argument("stream")
@click.option("--count", type=click.IntRange(min=1), help="Stop after this number of events.")
@click.option("--timeout", "timeout_s", type=float, help="Stop when no event has arrived for this number of seconds.")
@click.option(
    "--worker", help="Name of the only worker to listen to. Default: all, since any worker may publish results."
)
@KEYS_OPTION
@manager_options
@with_readable_errors
def listen_command(
    stream: str, count: int | None, timeout_s: float | None, worker: str | None, keys: str, client: ManagerClient
) -> None:
    """Print the events of the exported stream STREAM as they arrive, one JSON object per line.

    The command listens to all workers, including those that start later, since results are at the worker to which a
    publisher of the plan is connected. If no events arrive, the reason is printed to standard error.
    """
    security = SecurityConfig(keys)

    def addresses() -> dict[str, Endpoint]:
        if worker is not None:
            return {worker: endpoint(find_worker(client, worker)["egress"])}
        live = [one for one in client.cluster()["workers"] if one["egress"]]
        return {one["worker"]: endpoint(one["egress"]) for one in live}

    listener = StreamListener(
        addresses=addresses,
        listen=lambda where: EventListener(where, stream, client.tenant, security=security),
        quiet=lambda: _why_quiet(client, stream),
        tell=lambda text: click.echo(printable(text), err=True),
    )
    printed = 0
    try:
        for event in (event for batch in listener.batches(timeout_s) for event in event_rows(batch)):
            click.echo(json.dumps(event))
            printed += 1
            if printed == count:
                break
    finally:
        listener.close()


def _why_quiet(client: ManagerClient, stream: str) -> str:
    try:
        return why_quiet(stream, client.workers()["workers"])
    except CepError as error:
        return f"no events on {stream}, and the manager cannot say why: {error.message}"


def find_worker(client: ManagerClient, name: str | None) -> Any:
    """Return the addresses of the worker called `name`, or of the first; PeerError when there is none."""
    workers = client.cluster()["workers"]
    found = [worker for worker in workers if name in (None, worker["worker"])]
    if not found:
        known = ", ".join(worker["worker"] for worker in workers) or "none"
        wanted = f"no worker {name}" if name else "no worker"
        raise PeerError(f"{wanted} is registered at {client.url}; registered: {known}")
    return found[0]


def endpoint(address: Any) -> Endpoint:
    """Return the endpoint in a REST answer."""
    return Endpoint(address["host"], address["port"])


def watermark_of(batch: pa.RecordBatch) -> int:
    """Return what the sender of a file in time order may promise after `batch`: nothing older will follow."""
    return int(batch.column(TIMESTAMP)[batch.num_rows - 1].as_py())
