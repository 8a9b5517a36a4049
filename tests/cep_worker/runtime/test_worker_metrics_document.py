"""docs/operations/metrics.md lists every metric of a worker."""

import dataclasses
import re
from pathlib import Path

from cep_worker.runtime.prometheus import worker_metrics
from cep_worker.runtime.worker_metrics import WorkerMetrics

TEXT = (Path(__file__).parents[3] / "docs" / "operations" / "metrics.md").read_text(encoding="utf-8")
TABLE = TEXT.partition("| worker | labels | is |")[2].partition("\n\n")[0]


def test_the_workers_metrics_are_listed_and_no_others() -> None:
    nothing = WorkerMetrics(**{field.name: () for field in dataclasses.fields(WorkerMetrics)})
    told = {family.name for family in worker_metrics(nothing)}
    listed = {name.removesuffix("_total") for name in re.findall(r"`(cep_[a-z_]+)`(?=.*\|.*\|)", TABLE)}
    assert listed == told
