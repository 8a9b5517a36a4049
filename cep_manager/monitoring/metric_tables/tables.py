"""The tables METRIC_GAUGE, METRIC_COUNTER, METRIC_METER, METRIC_HISTOGRAM and METRIC_TIMER. Data alone.

They have the layout of WSO2's metrics, so that existing queries and dashboards work, except for number types: theirs
are whole, ours keep their fractions. Names are lower case, which databases that fold names treat as equal.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Double, Index, Integer, MetaData, String, Table

METADATA = MetaData()

LONGEST_NAME = 255

# SQLite generates numbers only for INTEGER keys.
_KEY = BigInteger().with_variant(Integer, "sqlite")
_SHARES = ("p50", "p75", "p95", "p98", "p99", "p999")
_SPREAD = ("max", "mean", "min", "stddev", *_SHARES)
_RATES = ("mean_rate", "m1_rate", "m5_rate", "m15_rate")


def _table(kind: str, *columns: Column[object]) -> Table:
    return Table(
        f"metric_{kind}",
        METADATA,
        Column("id", _KEY, primary_key=True, autoincrement=True),
        Column("source", String(LONGEST_NAME), nullable=False),
        Column("timestamp", BigInteger, nullable=False),
        Column("name", String(LONGEST_NAME), nullable=False),
        *columns,
        Index(f"idx_timestamp_{kind}", "timestamp"),
        Index(f"idx_name_{kind}", "name", "source", "timestamp"),  # what charts ask by
    )


def _numbers(names: tuple[str, ...]) -> list[Column[object]]:
    return [Column(name, Double, nullable=False) for name in names]


def _count() -> Column[object]:
    return Column("count", BigInteger, nullable=False)


def _unit(of: str) -> Column[object]:
    return Column(f"{of}_unit", String(50), nullable=False)


TABLES = {
    "gauge": _table("gauge", Column("value", String(100), nullable=False)),
    "counter": _table("counter", _count()),
    "meter": _table("meter", _count(), *_numbers(_RATES), _unit("rate")),
    "histogram": _table("histogram", _count(), *_numbers(_SPREAD)),
    "timer": _table("timer", _count(), *_numbers(_SPREAD), *_numbers(_RATES), _unit("rate"), _unit("duration")),
}
