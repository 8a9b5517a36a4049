"""How families of metrics are filled. Names follow Prometheus: `cep_`, the thing, what is measured, the unit."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

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
