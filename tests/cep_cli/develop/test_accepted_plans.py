"""Plans that users of Siddhi and WSO2 CEP write, in forms that are easily refused, and plans that no worker can run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cep_cli.main import main

_HTTP = "receiver.url='http://0.0.0.0:8007/a'"
_IN = "define stream In (k string, v int);"
_RDBMS = "@Store(type='rdbms', jdbc.url='jdbc:postgresql://localhost/db', username='a', password='b')"
ACCEPTED = {
    "one query name in two partitions": f"""@app:name('P') {_IN}
        partition with (k of In) begin @info(name='q') from In select k, sum(v) as s insert into Mid; end;
        partition with (k of Mid) begin
        @info(name='q') from Mid#window.length(2) select k, max(s) as m insert into Out; end;""",  # noqa: S608 - not SQL
    "kslack in all forms": """@app:name('P') define stream In (ts long, v double);
        from In#reorder:kslack(ts) select ts insert into A; from In#reorder:kslack(ts, true) select ts insert into B;
        from In#reorder:kslack(ts, 1000L) select ts insert into C;
        from In#reorder:kslack(ts, 1000L, true) select ts insert into D;
        from In#reorder:kslack(ts, 1000L, 100L) select ts insert into E;
        from In#reorder:kslack(ts, 1000L, 100L, true) select ts insert into F;
        from In#reorder:akslack(ts, v, 20L, 100L) select ts insert into G;""",
    "a table alone": "@app:name('P') @PrimaryKey('id') define table Settings (id string, value string);",
    "a stream alone": f"@app:name('P') {_IN}",
    "a window alone": "@app:name('P') define window W (x int) length(3);",
    "connectors by reference": """@app:name('P') @source(ref='incoming', @map(type='json')) define stream In (k string);
        @sink(ref='outgoing', @map(type='json')) define stream Out (k string); from In select k insert into Out;""",
    "an option twice": f"""@app:name('P') @source(type='http', receiver.url='http://0.0.0.0:8007/b', {_HTTP},
        @map(type='json')) {_IN} from In select k insert into Out;""",
    "no name": f"{_IN} from In select k insert into Out;",
    "a name with an ampersand": f"@app:name('Batching&Processing') {_IN} from In select k insert into Out;",
    "a name with a space": f"@app:name('plan name') {_IN} from In select k insert into Out;",
    "a query name with a space": f"""@app:name('P') {_IN}
        @name('query 1') @dist(parallel='4') from In select k insert into Out;""",
    "a key in another case": f"""@app:name('P') {_RDBMS} @PrimaryKey('Host') define table T (host string, v int);
        define stream In (host string, v int); from In insert into T;""",
    "capital built-ins": f"""@Plan:name('P') {_IN}
        from In#window.Length(5) select k, Sum(v) as s, MinForever(v) as m insert into Out;""",
    "a key of an unknown stream": f"""@Plan:name('P') {_IN}
        partition with (k of In, k of Nowhere) begin from In select k, sum(v) as s insert into Out; end;""",
    "unused imports and exports": f"""@Plan:name('P') @Import('In:1.0.0') {_IN}
        @Import('Unread:1.0.0') define stream Unread (k string); @Export('Out:1.0.0') define stream Out (k string);
        @Export('Unwritten:1.0.0') define stream Unwritten (k string); from In select k insert into Out;""",
    "arbitrary data": f"""@Plan:name('P') @Import('In:1.0.0') {_IN}
        @Export('Out:1.0.0', arbitrary.data='true') define stream Out (k string); from In select k insert into Out;""",
    "script texts of a type": f"""@app:name('P') {_IN}
        from In select js:eval("1 < 2", 'bool') as b, js:eval(k, 'bool') as c insert into Out;""",
    "options from attributes": f"""@app:name('P') {_IN}
        @sink(type='kafka', topic='{{{{k}}}}', bootstrap.servers='localhost:9092', @map(type='json'))
        @sink(type='http', publisher.url='http://localhost:8000/{{{{k}}}}', method='{{{{k}}}}',
        headers="'X: {{{{k}}}}'", @map(type='json'))
        @sink(type='file', file.uri='/tmp/{{{{k}}}}.txt', @map(type='json'))
        define stream Out (k string, v int); from In insert into Out;""",
    "options of the mapper of inMemory": f"""@app:name('P')
        @source(type='inMemory', topic='t', @map(type='passThrough')) {_IN}
        @sink(type='inMemory', topic='{{{{k}}}}', @map(type='json', validate.json='true', enclosing.element='$.x'))
        define stream Out (k string, v int); from In insert into Out;""",
    "whole files of a directory": f"""@app:name('P') @source(type='file', dir.uri='file:/tmp/in', mode='text.full',
        action.after.process='move', move.after.process='file:/tmp/done', tailing='false', @map(type='json')) {_IN}
        from In insert into Out;""",
    "parts of a file": f"""@app:name('P') @source(type='file', file.uri='/tmp/in.txt', mode='regex', begin.regex='<',
        end.regex='>', tailing='false', @map(type='json')) {_IN} from In insert into Out;""",
    "a sink with OAuth": f"""@app:name('P') {_IN} @sink(type='http', publisher.url='http://localhost/x',
        consumer.key='a', consumer.secret='b', token.url='http://localhost/token', refresh.token='r', method='PUT',
        on.error='STREAM', blocking.io='true', @map(type='json')) define stream Out (k string, v int);
        from In insert into Out;""",
    "mail without an address": f"""@app:name('P') {_IN} @sink(type='email', to='x@example.com', subject='s',
        @map(type='text')) define stream Out (k string, v int); from In insert into Out;""",
    "a stored aggregation": f"""@app:name('P') {_IN} {_RDBMS} define aggregation A from In
        select k, sum(v) as s group by k aggregate every sec ... year;""",
    "an attribute of type object": f"""@app:name('P') @source(type='http', {_HTTP}, @map(type='json'))
        define stream In (k string, o object); from In insert into Out;""",
}
WARNED = {
    "an option twice": "annotation-key-repeated",
    "no name": "plan-name-missing",
    "a key of an unknown stream": "partition-key-unknown-stream",
    "unused imports and exports": "exported-stream-not-produced",
    "arbitrary data": "arbitrary-data-unsupported",
    "options of the mapper of inMemory": "connector-option-without-effect",
    "a sink with OAuth": "connector-option-without-effect",
    "mail without an address": "connector-option-missing",
    "a stored aggregation": "store-kept-in-memory",
}
"""Plans of which something has no effect, or must be configured elsewhere, with the warning that says so."""


def _validated(tmp_path: Path, text: str) -> tuple[int, list[dict[str, Any]]]:
    file = tmp_path / "plan.siddhi"
    file.write_text(text, encoding="utf-8")
    result = CliRunner().invoke(main, ["validate", "--json", str(file)])
    return result.exit_code, json.loads(result.stdout)["findings"]


@pytest.mark.parametrize("plan", ACCEPTED)
def test_it_is_accepted(plan: str, tmp_path: Path) -> None:
    code, findings = _validated(tmp_path, ACCEPTED[plan])
    assert code == 0, findings
    assert {"warning"} >= {finding["severity"] for finding in findings}
    if plan in WARNED:
        assert WARNED[plan] in {finding["code"] for finding in findings}


def test_what_no_worker_can_run_is_refused_with_the_checks_of_workers(tmp_path: Path) -> None:
    text = f"""@app:name('P') @source(type='file', file.uri='/x', mode='no.such.mode', @map(type='json')) {_IN}
        @sink(type='http', publisher.url='not a url', on.error='NO_SUCH', @map(type='json'))
        @sink(type='email', address='me', to='x', subject='s') define stream Out (k string, v int);
        from In select k, v insert into Out;"""
    code, findings = _validated(tmp_path, text)
    assert code == 1
    assert [finding["code"] for finding in findings] == ["connector-option-wrong"] * 5
    options = ("mode", "publisher.url", "on.error", "address", "to")
    for option, finding in zip(options, findings, strict=True):
        assert f": {option}: must be " in finding["message"]


def test_an_unknown_annotation_is_named_with_the_nearest_known_one(tmp_path: Path) -> None:
    code, findings = _validated(tmp_path, f"@Plan:confg('x') {_IN} from In select k insert into Out;")
    assert code == 0
    (finding,) = [finding for finding in findings if finding["code"] == "annotation-unknown"]
    assert "@Plan:config" in finding["hint"]
