"""How a process exposes its metrics in Prometheus' text format.

Names follow Prometheus' conventions: `cep_`, the thing, what is measured, the unit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, NamedTuple, TypeVar

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

Thing = TypeVar("Thing")

Labelled = Iterable[tuple[tuple[object, ...], float]]
"""The values of the labels, in order, and the value of the sample."""


def gauge(name: str, text: str, labels: tuple[str, ...], values: Labelled) -> Metric:
    """Return a gauge with these samples."""
    family = GaugeMetricFamily(name, text, labels=labels)
    for of, value in values:
        family.add_metric([str(one) for one in of], value)
    return family


def counter(name: str, text: str, labels: tuple[str, ...], values: Labelled) -> Metric:
    """Return a counter with these samples; `name` ends with `_total`."""
    family = CounterMetricFamily(name, text, labels=labels)
    for of, value in values:
        family.add_metric([str(one) for one in of], value)
    return family


class MetricFamily(NamedTuple, Generic[Thing]):
    """A metric with one sample for each of several things: its name, its help text, and how its value is read."""

    name: str
    text: str
    value: Callable[[Thing], float]


def families_for(
    families: Iterable[MetricFamily[Thing]], labels: tuple[str, ...], things: Iterable[tuple[tuple[object, ...], Thing]]
) -> Iterator[Metric]:
    """Yield a metric for each of `families`, with a sample for each of `things`.

    A metric is a counter if its name ends with `_total`, else a gauge.
    """
    known = list(things)
    for family in families:
        make = counter if family.name.endswith("_total") else gauge
        yield make(family.name, family.text, labels, ((of, family.value(thing)) for of, thing in known))


class _ScrapeCollector(Collector):
    """Collect the metrics at each scrape, and keep none between scrapes."""

    def __init__(self, collect: Callable[[], Iterable[Metric]]) -> None:
        self._collect = collect

    def collect(self) -> Iterator[Metric]:
        yield from self._collect()

    def describe(self) -> list[Metric]:
        """Return no metrics in advance, since they depend on what is deployed."""
        return []


class Metrics:
    """The metrics that `collect` yields at each scrape, and those of the Python process. Thread-safe."""

    def __init__(self, collect: Callable[[], Iterable[Metric]]) -> None:
        """Create the registry of one process.

        Args:
            collect: Returns the present metrics; it is called for every scrape.
        """
        self._registry = CollectorRegistry()
        self._registry.register(_ScrapeCollector(collect))
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        GCCollector(registry=self._registry)

    def scrape(self, accepted: str) -> tuple[bytes, str]:
        """Return all metrics in one of the forms that an `Accept` header names, with its content type.

        Raises what `collect` raises.
        """
        encode, content_type = choose_encoder(accepted)
        return encode(self._registry), content_type
