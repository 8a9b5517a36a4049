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
"""Values of labels, in their order, with the value."""


def gauge(name: str, text: str, labels: tuple[str, ...], values: Labelled) -> Metric:
    """Something that is so at the moment."""
    family = GaugeMetricFamily(name, text, labels=labels)
    for of, value in values:
        family.add_metric([str(one) for one in of], value)
    return family


def counter(name: str, text: str, labels: tuple[str, ...], values: Labelled) -> Metric:
    """Something that only grows; `name` ends with `_total`."""
    family = CounterMetricFamily(name, text, labels=labels)
    for of, value in values:
        family.add_metric([str(one) for one in of], value)
    return family


class MetricFamily(NamedTuple, Generic[Thing]):
    """A family that tells one figure of each of several things: its name, its help, and how the figure is read."""

    name: str
    text: str
    value: Callable[[Thing], float]


def told(
    figures: Iterable[MetricFamily[Thing]], labels: tuple[str, ...], things: Iterable[tuple[tuple[object, ...], Thing]]
) -> Iterator[Metric]:
    """Yield a family for each of `figures`, with a sample for each of `things` and its labels.

    A family is a counter where its name ends with `_total`, else a gauge.
    """
    known = list(things)
    for figure in figures:
        family = counter if figure.name.endswith("_total") else gauge
        yield family(figure.name, figure.text, labels, ((of, figure.value(thing)) for of, thing in known))


class _Told(Collector):
    """Families that are told again for each scrape."""

    def __init__(self, tell: Callable[[], Iterable[Metric]]) -> None:
        self._tell = tell

    def collect(self) -> Iterator[Metric]:
        yield from self._tell()

    def describe(self) -> list[Metric]:
        """Return no metrics in advance, since they depend on what is deployed."""
        return []


class Metrics:
    """What `tell` says at the moment of each scrape, and the usual figures of a Python process. Any thread may ask."""

    def __init__(self, tell: Callable[[], Iterable[Metric]]) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_Told(tell))
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        GCCollector(registry=self._registry)

    def scrape(self, accepted: str) -> tuple[bytes, str]:
        """Return all metrics in one of the forms that an `Accept` header names, with its content type.

        Raises what `tell` raises.
        """
        encode, content_type = choose_encoder(accepted)
        return encode(self._registry), content_type
