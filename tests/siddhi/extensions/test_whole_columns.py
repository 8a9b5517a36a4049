"""Functions over whole columns give the same results as for single events."""

from __future__ import annotations

import random
import re
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from siddhi.analysis.analyser import analyse
from siddhi.engine.app_runtime import AppRuntime
from siddhi.engine.columnar.java_text import floating_text, floating_texts
from siddhi.language.parser import parse

_ATTRIBUTES = {"s": pa.utf8(), "n": pa.int32(), "l": pa.int64(), "f": pa.float32(), "d": pa.float64(), "b": pa.bool_(),
               "t": pa.int64()}  # fmt: skip
_CALLS = (
    *(f"convert({name}, 'string')" for name in "nlfdb"),
    *(f"convert(s, '{kind}')" for kind in ("int", "long", "float", "double", "bool")),
    "cast(d, 'string')",
    "str:concat(s, '-', n, l, f, d, b)", "str:concat(1, 'x')",
    "str:concat(s, s)", "str:concat(s, n, s)", "str:upper(str:concat(s, s))",
    "str:fillTemplate('{{1}}>{{ 2 }}{{1}} {{3}}', s, d, 7)", "str:fillTemplate('{{1}} {{3}}', s, d)",
    "str:fillTemplate(s, n, l)", "str:fillTemplate('{{x}}', n)",
    "time:dateFormat(t, 'yyyy-MM-dd HH:mm:ss.SSS')", "time:dateFormat(t, \"EEE, d MMM yy 'at' h:mm a\")",
    "time:dateFormat(t, 'SSSS,S')", "time:dateFormat(t, 'yyyy')", "time:dateFormat(t, 'jj')",
    "time:dateFormat(l, 'yyyy-MM')",
    "time:dateFormat(t, 'D w W F u GG kk KK XXX Z z')",
    *(f"time:dateAdd(t, {amount}, '{unit}')" for amount, unit in
      ((1, "MONTH"), (-3, "QUARTER"), (40, "DAY"), (7, "SECOND"), (9000, "YEAR"), (2, "week"))),
    "time:dateSub(t, 13, 'month')", "time:dateSub(t, n, 'DAY')", "time:dateAdd(l, 1, 'HOUR')",
    *(f"time:extract(t, '{unit}')" for unit in ("YEAR", "QUARTER", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "x")),
    "time:extract(l, 'HOUR')",
    "time:currentDate()", "time:currentTime()", "time:currentTimestamp('Asia/Seoul')",
    "time:utcTimestamp('HH:mm:ss.SSS')",
    "list:size(list:create(n, s))", "map:get(map:create(s, d, 'k', n), 'k')", "sizeOfSet(createSet(d))",
)  # fmt: skip
_DOUBLES = (
    0.0,
    -0.0,
    1.0,
    0.001,
    9.99e-4,
    1e7,
    9999999.0,
    -12.5,
    1e300,
    5e-324,
    float("nan"),
    float("-inf"),
    0.1 + 0.2,
)


def _rows(count: int, seed: int) -> list[dict[str, Any]]:
    draw = random.Random(seed)  # noqa: S311

    def row() -> dict[str, Any]:
        double = draw.choice(
            (draw.choice(_DOUBLES), draw.uniform(-100, 100), draw.uniform(-1, 1) * 10 ** draw.randint(-9, 20))
        )
        moment = draw.choice((draw.randint(1_700_000_000_000, 1_700_000_010_000), draw.randint(-(10**13), 2 * 10**14)))
        whole = {
            "s": draw.choice(("a", "12", "-7", "1.5", "true", "1e3", "", "é{{1}}", "{{2}}", "{{9}}", "99999999999")),
            "n": draw.randint(-(2**31), 2**31 - 1), "l": draw.choice((draw.randint(-(2**63), 2**63 - 1), 5)),
            "f": float(np.float32(draw.uniform(-1, 1) * 10 ** draw.randint(-9, 20))), "d": double,
            "b": draw.random() < 0.5, "t": moment,
        }  # fmt: skip
        return {name: None if draw.random() < 0.1 else value for name, value in whole.items()}

    return [row() for _ in range(count)]


def _play(call: str, rows: list[dict[str, Any]], size: int) -> list[tuple[str, str]]:
    text = (
        "@app:playback @OnError(action='STREAM') "
        "define stream S (i int, s string, n int, l long, f float, d double, b bool, t long); "
        f"from S select i, {call} as r insert into Out;"
    )
    runtime = AppRuntime(analyse(parse(text)))
    found: list[tuple[str, str]] = []
    runtime.add_stream_callback(
        "Out", lambda batch: found.extend((str(row["i"]), str(row["r"])) for row in batch.to_pylist())
    )
    runtime.add_stream_callback(
        "!S",
        lambda batch: found.extend(
            (str(row["i"]), re.sub("0x[0-9a-f]+", "", str(row["_error"]))) for row in batch.to_pylist()
        ),
    )
    runtime.start(0)
    for start in range(0, len(rows), size):
        part = rows[start : start + size]
        numbers = range(start, start + len(part))
        columns = {name: pa.array([row[name] for row in part], type_) for name, type_ in _ATTRIBUTES.items()}
        times = pa.array([1_700_000_000_000 + 300 * number for number in numbers], pa.int64())
        runtime.send("S", pa.record_batch({"_timestamp": times, "i": pa.array(numbers, pa.int32()), **columns}))
    return sorted(found, key=lambda one: int(one[0]))


@pytest.mark.parametrize("call", _CALLS)
def test_a_batch_gives_what_its_events_give_one_by_one(call: str) -> None:
    rows = _rows(40, seed=len(call))
    alone = _play(call, rows, 1)
    assert len(alone) == len(rows)
    assert _play(call, rows, 40) == alone


@pytest.mark.parametrize("single", [True, False])
def test_texts_of_a_column_are_those_of_each_number(single: bool) -> None:
    draw = random.Random(7)  # noqa: S311
    size, code = (4, "f") if single else (8, "d")
    numbers = [struct.unpack(code, draw.randbytes(size))[0] for _ in range(3_000)]
    numbers += [round(draw.uniform(0, 1e4), draw.randint(0, 3)) for _ in range(1_000)] + list(_DOUBLES)
    with np.errstate(over="ignore"):
        values = np.array(numbers).astype(np.float32 if single else np.float64)
    expected = [floating_text(value, single=single) for value in values.tolist()]
    assert floating_texts(values).to_pylist() == expected


def test_random_ids_are_uuids_of_version_4() -> None:
    text = "@app:playback define stream S (i int); from S select UUID() as r insert into Out;"
    runtime = AppRuntime(analyse(parse(text)))
    found: list[str] = []
    runtime.add_stream_callback("Out", lambda batch: found.extend(batch.column("r").to_pylist()))
    runtime.start(0)
    for size in (1, 500):
        columns = {"_timestamp": pa.array([1] * size, pa.int64()), "i": pa.array([1] * size, pa.int32())}
        runtime.send("S", pa.record_batch(columns))
    assert len(set(found)) == 501
    assert all(
        re.fullmatch("[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", one) for one in found
    )
