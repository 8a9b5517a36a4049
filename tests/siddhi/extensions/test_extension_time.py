"""`time:` functions."""

from __future__ import annotations

from typing import Any

import pytest
from extension_runs import DROPPED, Run, result_type, results

from siddhi.errors import SiddhiAnalysisError

D, N = "d string", "d long"
FULL = "2014-11-11 13:23:44.657"
CASES: list[tuple[str, str, list[Any], Any]] = [
    ("time:date(d, 'yyyy/MM/dd HH:mm:ss')", D, ["2014/11/11 13:23:44"], "2014-11-11"),
    ("time:date(d)", D, [FULL], "2014-11-11"),
    ("time:date(d)", D, [None], None),
    ("time:date(d)", D, ["yesterday"], DROPPED),
    ("time:dateAdd(d, 5, 'year')", D, [FULL], "2019-11-11 13:23:44.657"),
    ("time:dateAdd(d, 1, 'MONTH', 'yyyy-MM-dd')", D, ["2015-01-31"], "2015-02-28"),
    ("time:dateAdd(d, 1, 'HOUR')", N, [1415712224000], "1415715824000"),
    ("time:dateAdd(d, 1, 'HOUR')", N, [None], None),
    ("time:dateAdd(d, 1, 'hour')", N, [1415712224000], "1415712224000"),
    ("time:dateAdd(d, 1, 'EON')", D, [FULL], FULL),
    ("time:dateSub(d, 1, 'hour')", N, [1415712224000], "1415708624000"),
    ("time:date(d, 'yyyy-MM-dd HH:mm')", D, ["2014-02-30 25:61"], "2014-03-03"),
    ("time:date(d, 'yyyy-MM-dd')", D, ["2014-14-00"], "2015-01-31"),
    ("time:dateFormat(d, 'HH:mm', 'hh:mm a')", D, ["12:30 PM"], "12:30"),
    ("time:dateFormat(d, 'HH:mm', 'hh:mm')", D, ["22:30"], "22:30"),
    ("time:dateFormat(d, 'yyyy', 'yyyy')", D, ["14"], "0014"),
    ("time:dateFormat(d, 'yyyy', 'yy')", D, ["14"], "2014"),
    ("time:dateFormat(d, 'yyyy-MM-dd', 'yyyy-DDD')", D, ["2014-032"], "2014-02-01"),
    ("time:dateSub(d, 1, 'QUARTER')", D, [FULL], "2014-08-11 13:23:44.657"),
    ("time:dateSub(d, 2, 'WEEK', 'yyyy-MM-dd')", D, ["2014-11-11"], "2014-10-28"),
    (
        "time:dateDiff(d, '2014-11-9 13:23:44', 'yyyy-MM-dd HH:mm:ss', 'yyyy-MM-dd HH:mm:ss')",
        D,
        ["2014-11-11 13:23:44"],
        2,
    ),
    ("time:dateDiff(d, 1412841224000L)", N, [1415692424000], 33),
    ("time:dateDiff(d, 1412841224000L)", N, [None], None),
    ("time:dateDiff(d, '2014-11-11 13:23:44.657')", D, [None], None),
    ("time:dateFormat(d, 'mm:ss', 'yyyy/MM/dd HH:mm:ss')", D, ["2014/11/11 13:23:44"], "23:44"),
    ("time:dateFormat(d, 'yyyy-MM-dd')", N, [1415692424000], "2014-11-11"),
    ("time:dateFormat(d, 'EEE, d MMM yy hh:mm a Z')", D, [FULL], "Tue, 11 Nov 14 01:23 PM +0000"),
    ("time:dateFormat(d, 'EEEE dd MMMM DDD')", D, [FULL], "Tuesday 11 November 315"),
    (
        "time:dateFormat(d, \"yyyy-MM-dd'T'HH:mm:ssXXX\", 'yyyyMMddHHmmss')",
        D,
        ["20141111132344"],
        "2014-11-11T13:23:44Z",
    ),
    ("time:dateFormat(d, 'yyyy w ww W F ZZ')", D, [FULL], "2014 46 46 3 2 +00:00"),
    ("time:dateFormat(d, 'w W F')", D, ["2023-12-31 00:00:00.000"], "1 6 5"),
    ("time:date(d, 'yyyy-ww')", D, ["2014-46"], DROPPED),
    ("time:dateFormat(d, 'Q')", D, [FULL], DROPPED),
    ("time:dayOfWeek(d, 'yyyy/MM/dd HH:mm:ss')", D, ["2014/12/11 13:23:44"], "Thursday"),
    ("time:dayOfWeek(d)", D, ["2014-11-11 13:23:44.345"], "Tuesday"),
    ("time:extract('YEAR', d, 'yyyy/MM/dd HH:mm:ss.SSS')", D, ["2019/11/11 13:23:44.657"], 2019),
    ("time:extract('day', d)", D, ["2019-11-12 13:23:44.657"], 12),
    ("time:extract(d, 'HOUR')", N, [1394556804000], 16),
    ("time:extract(d, 'QUARTER')", N, [1394556804000], 1),
    ("time:extract('WEEK', d, 'yyyy-MM-dd')", D, ["2023-01-01"], 1),
    ("time:extract('WEEK', d, 'yyyy-MM-dd')", D, ["2024-12-29"], 1),
    ("time:extract('WEEK', d, 'yyyy-MM-dd', 'fr_FR')", D, ["2023-01-01"], 52),
    ("time:extract('DAY', d)", D, [None], None),
    ("time:extract(d, 'DAY')", N, [None], None),
    ("time:extract(d, 'HOUR_OF_DAY')", N, [1394556804000], 0),
    ("time:timestampInMilliseconds(d, 'yyyy-MM-DD HH:MM:SS')", D, ["2007-11-30 10:30:19"], 1170151200019),
    ("time:timestampInMilliseconds(d)", D, ["2007-11-30 10:30:19.000"], 1196418619000),
    ("time:timestampInMilliseconds(d, 'yyyy-MM-dd HH:mm:ss Z')", D, ["2007-11-30 10:30:19 +0530"], 1196398819000),
    ("time:timestampInMilliseconds(d, 'yyyy-MM-dd HH:mm:ssZ')", D, ["2007-11-30 05:00:19GMT"], 1196398819000),
    ("time:timestampInMilliseconds(d, 'yyyy-MM-dd HH:mm:ssZ')", D, ["2007-11-30 10:30:19GMT+05:30"], 1196398819000),
    ("time:timestampInMilliseconds(d, 'yyyy-MM-dd HH:mm:ss z')", D, ["2007-11-30 10:30:19 +0530"], 1196398819000),
    ("time:timezoneConvert(d, 'yyyy/MM/dd HH:mm:ss', 'UTC', 'IST')", D, ["2014/11/11 13:23:44"], "2014/11/11 07:53:44"),
    ("time:timezoneConvert(d, 'yyyy/MM/dd HH:mm:ss', 'UTC')", D, ["2014/11/32 13:23:44"], DROPPED),
    ("time:timezoneConvert(d, 'yyyy/MM/dd HH:mm', 'UTC', 'UTC')", D, ["2014/02/30 13:23"], "2014/02/28 13:23"),
    ("time:timezoneConvert(d, 'yyyy/MM/dd HH:mm', 'UTC', 'UTC')", D, ["2014/2/3 13:23"], DROPPED),
    ("time:timezoneConvert(d, 'yyyy/M/d H:mm', 'UTC', 'UTC')", D, ["2014/2/03 9:23"], "2014/2/3 9:23"),
    ("time:timezoneConvert(d, 'yyyy/MM/dd HH:mm', 'UTC', 'UTC')", D, ["2014/02/03 13:23 or so"], DROPPED),
    ("time:timezoneConvert(d, 'yyyy/MM/dd', 'UTC', 'UTC')", D, ["2014/02/03"], DROPPED),
    ("time:timezoneConvert(d, 'yyyyMMddHHmm', 'IST', 'UTC')", D, ["201402031323"], "201402031853"),
    ("time:timezoneConvert(d, 'yy/MM/dd hh:mm a', 'UTC', 'UTC')", D, ["99/02/03 01:23 PM"], "99/02/03 01:23 PM"),
    ("time:timezoneConvert(d, 'yyyy/MM/dd HH:mm:ss', 'Mars')", D, ["2014/11/11 13:23:44"], DROPPED),
]


@pytest.mark.parametrize(("expression", "attributes", "row", "expected"), CASES)
def test_a_time_function_gives_what_siddhi_gives_in_utc(
    expression: str, attributes: str, row: list[Any], expected: Any
) -> None:
    assert results(expression, attributes, [row]) == [expected]


@pytest.mark.parametrize("expression", ["time:extract(d, d)", "time:dateAdd(d, 1, d)", "time:dateFormat(1, 'yyyy')"])
def test_wrong_arguments_are_refused(expression: str) -> None:
    with pytest.raises(SiddhiAnalysisError, match="wrong-arguments"):
        result_type(expression, D)


@pytest.mark.parametrize(
    ("zone", "expected"),
    [("+05:30", "1970-01-01 05:30:00"), ("+30:00", DROPPED), ("", DROPPED), (None, "1970-01-01 00:00:00")],
)
def test_now_is_shown_in_a_zone_that_an_event_names(zone: str | None, expected: str) -> None:
    assert results("time:currentTimestamp(z)", "z string", [[zone]]) == [expected]


def test_now_is_the_clock_of_the_app() -> None:
    run = Run(
        "@app:playback define stream In (a int); @info(name='q') from In select time:currentDate() as d, "
        "time:currentTime() as t, time:currentTimestamp('Asia/Kolkata') as k, time:utcTimestamp() as u, "
        "time:utcTimestamp('yyyy/MM') as f, time:timestampInMilliseconds() as m insert into Out;"
    )
    run.send((1415712224000, [1]))
    assert run.taken() == [
        "+2014-11-11,13:23:44,2014-11-11 18:53:44,2014-11-11 13:23:44,2014/11,1415712224000",
    ]
