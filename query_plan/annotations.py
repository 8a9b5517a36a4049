"""The distribution settings in a plan's annotations, read from the syntax tree.

Reading never fails: an invalid value is kept as written, with its position, and counts as absent. The
checks in `query_plan.checks` report it. Names of annotations and keys are compared without case.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from cep_common.protocol.drivers import PlanHost
from cep_common.protocol.tasks import StatisticsLevel
from query_plan.model import Delivery, Transport
from query_plan.plan_names import name_of_text
from siddhi.language import ast

_HEADER_NAMESPACES = ("plan", "app")
IMPORTING = ("import", "source")
EXPORTING = ("export", "sink")
TRANSPORTS: tuple[Transport, ...] = ("zeromq", "kafka")
DELIVERIES: tuple[Delivery, ...] = ("at-least-once", "exactly-once", "at-most-once")
HOSTS: tuple[PlanHost, ...] = ("shared", "own")
STATISTICS: dict[str, StatisticsLevel] = {
    "off": "off",
    "basic": "basic",
    "detail": "detail",
    "true": "basic",
    "false": "off",
}
MOST_INSTANCES = 1_024
"""The maximum number of instances of a stage, and of all stages of a plan. The manager keeps each instance and its
links in its graphs and status, and no cluster of this kind can place more."""
LONGEST_COUNT = 6
DIST_KEYS = ("execGroup", "parallel", "state", "sync", "min", "max")
"""The keys of `@dist` on a query or partition."""
SNAPSHOT_MINUTES = "siddhi.persistence.snapshot.time.interval.minutes"
SNAPSHOTS_KEPT = "siddhi.persistence.snapshot.revisions.to.keep"
MOST_KEPT = 1_000
DISTRIBUTED = "siddhi.enable.distributed.processing"
"""The runtime configuration of CEP 2.0, and WSO2's `revisionsToKeep`, options of `@Plan:config`."""
CHANNEL_CREATION = "transportchannelcreationenabled"
"""`@App:transportChannelCreationEnabled('false')`: the manager creates no topic of the plan."""
MOST_MINUTES = 10_080
"""One week. The write-ahead logs of a plan grow until its next checkpoint."""
DEFAULT_REPLICAS = 2
MOST_CORES = 999
LEAST_MEMORY_BYTES = 256 * 2**20
_MEMORY = re.compile(r"(\d{1,9})\s*([mg])b?", re.ASCII | re.IGNORECASE)
_LABEL = re.compile(r"[A-Za-z0-9][\w./-]*(=[\w.-]*)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class AnnotationValue:
    """A value as written in the text."""

    text: str
    span: ast.Span


@dataclass(frozen=True, slots=True)
class Header:
    """The annotations at the head of the plan."""

    written_name: AnnotationValue | None
    default_name: str
    description: str
    dialect_3x: bool
    receiver_parallel: AnnotationValue | None
    publisher_parallel: AnnotationValue | None
    workers: AnnotationValue | None
    trace: bool
    statistics: AnnotationValue | None
    delivery: AnnotationValue | None
    host: AnnotationValue | None
    cores: AnnotationValue | None
    memory: AnnotationValue | None
    labels: AnnotationValue | None
    snapshot_minutes: AnnotationValue | None = None
    snapshots_kept: AnnotationValue | None = None
    distributed: AnnotationValue | None = None
    transport: AnnotationValue | None = None
    creates_topics: bool = True

    @property
    def shares_state(self) -> bool:
        """Whether the whole plan is one group with shared state (CEP 2.0's distributed processing)."""
        return self.distributed is not None and self.distributed.text.strip().casefold() == "true"

    @property
    def name(self) -> str:
        """The plan's name; a plan without one is named after a digest of its text."""
        return self.written_name.text.strip() if self.written_name else self.default_name


@dataclass(frozen=True, slots=True)
class Distribution:
    """The `@dist` of a query or partition; `present` is False when there is none."""

    present: bool
    group: AnnotationValue | None
    parallel: AnnotationValue | None
    state: AnnotationValue | None = None
    sync: AnnotationValue | None = None
    least: AnnotationValue | None = None
    most: AnnotationValue | None = None

    @property
    def scales(self) -> bool:
        """Whether the number of instances follows the load (`parallel='auto'`)."""
        return is_auto(self.parallel)

    @property
    def bounds(self) -> tuple[int, int]:
        """The smallest and the largest number of instances; both are the same unless the number follows the load."""
        if not self.scales:
            number = positive(self.parallel) or 1
            return number, number
        least = positive(self.least) or 1
        return least, max(least, positive(self.most) or 1)

    @property
    def written(self) -> str:
        """The number of instances as written in `@dist`."""
        least, most = self.bounds
        return f"parallel='auto', min='{least}', max='{most}'" if self.scales else f"parallel='{least}'"

    @property
    def shares_state(self) -> bool:
        """Whether every instance keeps the whole state of the group (`state='shared'`)."""
        return self.state is not None and self.state.text.strip().casefold() == "shared"

    @property
    def logs_to_kafka(self) -> bool:
        """Whether the log of a group with shared state is a topic of Kafka (`sync='kafka'`)."""
        return self.sync is not None and self.sync.text.strip().casefold() == "kafka"


def named(annotations: Iterable[ast.Annotation], *names: str) -> Iterator[ast.Annotation]:
    """Yield the element annotations with one of `names` (lower case), in text order."""
    return (one for one in annotations if one.namespace is None and one.name.casefold() in names)


def of_header(app: ast.App, name: str) -> Iterator[ast.Annotation]:
    """Yield the plan annotations `@Plan:name` and `@app:name`, in text order."""
    return (
        one
        for one in app.annotations
        if (one.namespace or "").casefold() in _HEADER_NAMESPACES and one.name.casefold() == name
    )


def written(annotations: Iterable[ast.Annotation], key: str | None) -> tuple[AnnotationValue, ...]:
    """Return every value of element `key` (None: the unnamed ones) in `annotations`, in text order."""
    return tuple(
        AnnotationValue(element.value, element.span)
        for annotation in annotations
        for element in annotation.elements
        if (element.key or "").casefold() == (key or "").casefold()
    )


def first(annotations: Iterable[ast.Annotation], key: str | None) -> AnnotationValue | None:
    """Return the first value of `key` in the annotations, None if there is none."""
    return next(iter(written(annotations, key)), None)


def read_header(app: ast.App) -> Header:
    """Read the annotations at the head of the plan."""
    dist, resources = tuple(of_header(app, "dist")), tuple(of_header(app, "resources"))
    config = tuple(of_header(app, "config"))
    description = first(of_header(app, "description"), None)
    written_name = next((_value(annotation) for annotation in of_header(app, "name")), None)
    return Header(
        written_name=written_name,
        default_name=name_of_text(app) if written_name is None else "",
        description=description.text if description else "",
        dialect_3x=any((one.namespace or "").casefold() == "plan" for one in app.annotations),
        receiver_parallel=first(dist, "receiverParallelism"),
        publisher_parallel=first(dist, "publisherParallelism"),
        workers=first(dist, "workers"),
        trace=any((one.value() or "").strip().casefold() == "true" for one in of_header(app, "trace")),
        statistics=next(map(_statistics, of_header(app, "statistics")), None),
        delivery=next((_value(annotation) for annotation in of_header(app, "delivery")), None),
        host=next((_value(annotation) for annotation in of_header(app, "host")), None),
        cores=first(resources, "cores"),
        memory=first(resources, "memory"),
        labels=first(resources, "labels"),
        snapshot_minutes=first(config, SNAPSHOT_MINUTES),
        snapshots_kept=first(config, SNAPSHOTS_KEPT),
        distributed=first(config, DISTRIBUTED),
        transport=next((_value(annotation) for annotation in of_header(app, "transport")), None),
        creates_topics=all(
            (one.value() or "").strip().casefold() != "false" for one in of_header(app, CHANNEL_CREATION)
        ),
    )


def _value(annotation: ast.Annotation) -> AnnotationValue:
    return AnnotationValue(annotation.value() or "", annotation.span)


def _statistics(annotation: ast.Annotation) -> AnnotationValue:
    """Return the level that `@Plan:statistics('basic')` or `@app:statistics(enable='true', …)` sets.

    Other options of Siddhi's annotation (reporter, interval) have no meaning here.
    """
    switched = first([annotation], "enable")
    return switched or AnnotationValue(annotation.value() or "true", annotation.span)


def read_distribution(annotations: tuple[ast.Annotation, ...]) -> Distribution:
    """Read the `@dist` annotations of a query or partition."""
    dist = tuple(named(annotations, "dist"))
    return Distribution(bool(dist), *(first(dist, key) for key in DIST_KEYS))


def written_name(annotations: tuple[ast.Annotation, ...]) -> AnnotationValue | None:
    """Return the name of an element: its `@name('…')`, else its `@info(name='…')`."""
    return first(named(annotations, "name"), None) or first(named(annotations, "info"), "name")


def positive(value: AnnotationValue | None) -> int | None:
    """Return `value` as an integer from 1 to `MOST_INSTANCES`; None when it is absent or invalid."""
    if value is None:
        return None
    text = value.text.strip()
    if not (text.isascii() and text.isdigit()) or len(text) > LONGEST_COUNT:
        return None
    number = int(text)
    return number if 1 <= number <= MOST_INSTANCES else None


def is_auto(value: AnnotationValue | None) -> bool:
    """Return whether `value` leaves the number of instances to the load."""
    return value is not None and value.text.strip().casefold() == "auto"


def minutes_of(value: AnnotationValue | None) -> int | None:
    """Return `value` as minutes from 0 to `MOST_MINUTES`; None when it is absent or invalid."""
    text = value.text.strip() if value is not None else ""
    if not (text.isascii() and text.isdigit()) or len(text) > LONGEST_COUNT:
        return None
    return int(text) if int(text) <= MOST_MINUTES else None


def checkpoint_interval_of(header: Header) -> int | None:
    """Return the interval of the plan's checkpoints in milliseconds; None means that of the driver's configuration.

    An interval of 0 turns periodic checkpoints off. With distributed processing, as in CEP 2.0, the interval only means
    that the plan's instances keep the state: checkpoints then follow the driver's configuration.
    """
    minutes = minutes_of(header.snapshot_minutes)
    return None if minutes is None or header.shares_state else minutes * 60_000


def kept_checkpoints_of(header: Header) -> int | None:
    """Return how many of the plan's checkpoints are kept; None means the number in the driver's configuration."""
    kept = positive(header.snapshots_kept)
    return kept if kept is not None and kept <= MOST_KEPT else None


def source_parallel(app: ast.App) -> int:
    """Return how many receivers the plan's sources request: `@source(…, @dist(parallel='2'))`.

    A plan has one group of receivers for all its sources, so the largest number counts.
    """
    asked = (positive(value) or 1 for value in source_parallels(app))
    return max(asked, default=1)


def source_parallels(app: ast.App) -> tuple[AnnotationValue, ...]:
    """Return every `parallel` of a `@dist` in `@source`, in text order."""
    sources = (one for definition in app.definitions for one in named(definition.annotations, "source"))
    return tuple(value for source in sources for value in written(named(source.annotations, "dist"), "parallel"))


def delivery_of(value: AnnotationValue | None) -> Delivery | None:
    """Return the delivery guarantee that `value` names, or None when it is absent or unknown."""
    text = value.text.strip().casefold() if value is not None else ""
    return next((delivery for delivery in DELIVERIES if delivery == text), None)


def transport_of(value: AnnotationValue | None) -> Transport | None:
    """Return the transport of streams between execution groups; None when it is absent or unknown."""
    text = value.text.strip().casefold() if value is not None else ""
    return next((transport for transport in TRANSPORTS if transport == text), None)


def host_of(value: AnnotationValue | None) -> PlanHost | None:
    """Return where the plan's task runs; None when that is absent or unknown."""
    text = value.text.strip().casefold() if value is not None else ""
    return next((host for host in HOSTS if host == text), None)


def statistics_of(value: AnnotationValue | None) -> StatisticsLevel | None:
    """Return the statistics level that `value` names; None when it is absent or unknown.

    `true` means `basic` and `false` means `off`, as in Siddhi apps.
    """
    text = value.text.strip().casefold() if value is not None else ""
    return STATISTICS.get(text)


def read_cores(value: AnnotationValue | None) -> int | None:
    """Return how many cores each task takes; None when that is absent or out of bounds."""
    cores = positive(value)
    return cores if cores is not None and cores <= MOST_CORES else None


def memory_of(value: AnnotationValue | None) -> int | None:
    """Return the bytes of a text such as `512m` or `2g`; None when it is absent, invalid, or too small for a task."""
    found = _MEMORY.fullmatch(value.text.strip()) if value is not None else None
    if found is None:
        return None
    memory = int(found[1]) * (2**30 if found[2] in "gG" else 2**20)
    return memory if memory >= LEAST_MEMORY_BYTES else None


def labels_of(value: AnnotationValue | None) -> tuple[str, ...] | None:
    """Return the labels of a text such as `ssd, zone=a`; None when it is absent or a label is invalid."""
    labels = tuple(label.strip() for label in value.text.split(",")) if value is not None else ()
    return labels if labels and all(_LABEL.fullmatch(label) for label in labels) else None
