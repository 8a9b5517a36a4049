"""Problems that the analysis reports, with their messages."""

import pytest

from siddhi.analysis.analyser import analyse
from siddhi.errors import SiddhiAnalysisError
from siddhi.language.parser import parse

DEFINITIONS = """
define stream S (a int, b string, c double, o object, t long);
define stream T (a int, x bool);
@PrimaryKey('k') define table Tb (k string, v int);
define window W (a int) length(3);
define trigger Tick at every 5 sec;
define aggregation Ag from S select b, sum(a) as total group by b aggregate every sec...day;
"""


def refusal(text: str) -> SiddhiAnalysisError:
    with pytest.raises(SiddhiAnalysisError) as refused:
        analyse(parse(text))
    return refused.value


@pytest.mark.parametrize(
    ("query", "code", "words"),
    [
        ("from s insert into O", "unknown-stream", "did you mean 'S'?"),
        ("from Later insert into O; from S insert into Later", "unknown-stream", "above"),
        ("from S[d > 1] insert into O", "unknown-attribute", "no attribute 'd' in 'S'"),
        ("from S[a == null] insert into O", "unknown-attribute", "is null"),
        ("from p=S -> q=T[b == 'x'] select p.a insert into O", "unknown-attribute", "no attribute 'b' in 'q'"),
        ("from p=S -> q=T[b == 'x'] select p.a insert into O", "unknown-attribute", "write 'p.b'"),
        ("from p=T[b == 'x'] -> q=S select p.a insert into O", "unknown-attribute", "no attribute 'b' in 'p' [unkn"),
        ("from S select s.a as x insert into O", "unknown-reference", "did you mean 'S'?"),
        ("from S select a having S.a > 1 insert into O", "unknown-reference", "there is nothing named 'S' here"),
        (
            "from S as s join T as t on S.a == t.a select s.a as x insert into O",
            "unknown-reference",
            "did you mean 's'?",
        ),
        ("from S join T on a > 1 select S.a as x insert into O", "ambiguous-attribute", "'S.a'"),
        ("from S[b > 'x'] insert into O", "not-comparable", "'>' cannot compare string and string"),
        ("from S[b > 'x'] insert into O", "not-comparable", "strings and bools support only `==` and `!=`"),
        ("from S[a > '1'] insert into O", "not-comparable", "convert(…, 'double')"),
        ("from S[o == o] insert into O", "not-comparable", "object"),
        ("from S select b + o as x insert into O", "not-a-number", "string and object"),
        ("from S[a] insert into O", "not-a-condition", "a filter must be a bool, not int"),
        ("from S[not a > 1] insert into O", "not-a-condition", "`not` binds tightest"),
        ("from S[a > 1 and 5 min] insert into O", "not-a-condition", "a time has no `and`"),
        ("from S select SUM(a) as x insert into O", "unknown-function", "did you mean 'sum'?"),
        ("from S select sum(b) as x insert into O", "wrong-arguments", "int | long | float | double"),
        ("from S select coalesce(a, t) as x insert into O", "wrong-arguments", "int and long"),
        ("from S select coalesce(a, t) as x insert into O", "wrong-arguments", "convert one of them"),
        ("from S select convert(a, 'integer') as x insert into O", "wrong-arguments", "did you mean 'int'?"),
        ("from S select strr:upper(b) as x insert into O", "unknown-function", "did you mean 'str:upper'?"),
        ("from S select upper(b) as x insert into O", "unknown-function", "did you mean 'str:upper'?"),
        ("from S[isNull(b)] insert into O", "unknown-function", "write `x is null`"),
        ("from S select convert(a, 'number') as x insert into O", "wrong-arguments", "'number' is not a type"),
        ("from S select convert(a, 'object') as x insert into O", "wrong-arguments", "'object' is not a type"),
        ("from S select cast(o, 'object') as x insert into O", "wrong-arguments", "'object' is not a type"),
        ("from S#length(5) insert into O", "unknown-stream-function", "#window.length(…)"),
        ("from S#unique:length(b, 5) insert into O", "unknown-stream-function", "#window.unique:length(…)"),
        ("from S#priority:time(b, 5) insert into O", "unknown-stream-function", "there is no extension 'priority'"),
        ("from S select geo:where(b) as x insert into O", "unknown-function", "there is no extension 'geo'"),
        ("from S#math:sin(b) insert into O", "unknown-stream-function", "the extension 'math' has none"),
        ("from S#window.math:length(5) insert into O", "unknown-window", "the extension 'math' has none"),
        ("from S select math:sim(b) as x insert into O", "unknown-function", "did you mean 'math:sin'?"),
        ("from S#window.length(5L) insert into O", "wrong-arguments", "does not take (long)"),
        ("from S#window.length(a) insert into O", "wrong-arguments", "must be a constant"),
        ("from S#window.cron('* * * * *') insert into O", "wrong-arguments", "hint: write seconds, minutes, hours"),
        ("from S#window.externalTime(100L, 1 sec) insert into O", "wrong-arguments", "must be a plain attribute"),
        ("from S#window.sort(2, a, 'up') insert into O", "wrong-arguments", "'asc' or 'desc'"),
        ("from S#window.sort(2, a, b) insert into O", "wrong-arguments", "(order) must be a constant"),
        ("from S#window.sort(2, a, c) insert into O", "wrong-arguments", "does not take (int, int, double)"),
        ("from S#window.sort(2, a, 'asc', c, b) insert into O", "wrong-arguments", "write 'asc' in between"),
        ("from S#window.session(1000) insert into O", "wrong-arguments", "does not take (int)"),
        ("from S#window.session(1 sec, 500) insert into O", "wrong-arguments", "does not take (long, int)"),
        ("from S#window.session(1 sec, 1 sec) insert into O", "wrong-arguments", "does not take (long, long)"),
        ("from S#window.session(1 sec, b, 500) insert into O", "wrong-arguments", "does not take (long, string, int)"),
        ("from S#window.frequent(2, a) insert into O", "wrong-arguments", "does not take (int, int)"),
        ("from S#window.frequent(2, b, b) insert into O", "wrong-arguments", "does not take (int, string, string)"),
        ("from S#window.lossyFrequent(0.4) insert into O", "wrong-arguments", "does not take (double)"),
        ("from S#window.lossyFrequent(0.4, b) insert into O", "wrong-arguments", "does not take (double, string)"),
        (
            "from S#window.lossyFrequent(0.4, 0.1, a) insert into O",
            "wrong-arguments",
            "lossyFrequent(support: double, error: double, attribute: string)",
        ),
        ("from S#window.expression('sum(a)') insert into O", "not-a-condition", "in the expression of 'expression'"),
        ("from S#window.length(1)#window.length(2) insert into O", "second-window", "at most one"),
        ("from W#window.length(1) insert into O", "window-on-window", "named window"),
        ("from Tb insert into O", "not-a-stream", "join a stream"),
        ("from S select a, c as a insert into O", "duplicate-output", "with `as`"),
        ("from S join T select * insert into O", "duplicate-output", "'a'"),
        ("from S select a having c > 1.0 insert into O", "unknown-attribute", "in the output"),
        ("from S select a having c > 1.0 insert into O", "unknown-attribute", "add 'c' to `select`"),
        ("from T select x having x insert into O", "bare-having", "write `x == true`"),
        ("from T select x having true insert into O", "bare-having", "a comparison, a test or a function"),
        ("from T select x having or(x) insert into O", "bare-having", "write `… == true`"),
        ("partition with (x as 'y' of T) begin from T insert into O; end", "bare-range", "write `x == true`"),
        ("from S select a limit -1 insert into O", "wrong-limit", "0 or more"),
        ("from S select a insert into T", "schema-mismatch", "(a int, x bool)"),
        ("from S select a as t insert into O; from S select t insert into O", "schema-mismatch", "use convert"),
        ("from S select a insert into Ag", "not-a-target", "aggregation"),
        ("from S select a, c as _error insert into !S", "schema-mismatch", "'S' has (a int"),
        ("from S select b as k delete Tb on v > 1", "unknown-attribute", "'Tb.v'"),
        ("from S select b as k delete Tb", "condition-missing", "on Tb."),
        ("from S select b as k, a as w update Tb on Tb.k == k", "unknown-attribute", "'w'"),
        ("from S select b as k, a as v update Tb set Tb.z = v on Tb.k == k", "unknown-attribute", "'z'"),
        ("from S[a in Nope] insert into O", "unknown-table", "no table 'Nope'"),
        ("from Tb join Ag on k == b select k insert into O", "join-without-stream", "stream or window"),
        ("from S join Ag on S.b == Ag.b select S.a as a insert into O", "aggregation-without-period", "within"),
        ("from S join Ag within 0L, 9L per 'weeks' select S.a as a insert into O", "unknown-duration", "'weeks'"),
        (
            "from S join Ag within 0L, 9L per 'years' select S.a as a insert into O",
            "duration-not-kept",
            "sec, min, hour",
        ),
        ("from S join T within 5 sec select x insert into O", "within-without-aggregation", "windows"),
        ("from S select a return", "return-not-here", "insert into"),
        ("from (from S return) insert into O", "anonymous-stream", "insert into"),
        ("from S select a output snapshot every 1 sec insert expired events into O", "wrong-event-type", "snapshot"),
        ("from S select a output snapshot every 1 sec insert events into O", "wrong-event-type", "current"),
        ("from e1=S[a > e2.a] -> e2=T select e2.x as x insert into O", "forward-reference", "later element"),
        ("from e1=S and e2=T[a > e1.a] select e2.x as x insert into O", "forward-reference", "left side"),
        ("from e1=S -> e2=T select a insert into O", "ambiguous-attribute", "'e1' and 'e2'"),
        ("from e1=S[(Tb.v == a) in Tb] -> e2=T select e2.x as x insert into O", "in-not-here", "`in`"),
        (
            "from e1=S -> e2=S#pol2Cart(e1.c, c) select e2.x as x insert into O",
            "not-in-patterns",
            "their own element",
        ),
        ("from e1=S#log() -> e2=T select e2.x as x insert into O", "not-in-patterns", "separate query"),
        ("@info(name='q') from S insert into A; @info(name='q') from S insert into B", "duplicate-query-name", "'q'"),
        ("@info(name='query_2') from S insert into A; from S insert into B", "duplicate-query-name", "'query_2'"),
        (
            "@info(name='p') from S insert into A; @info(name='p') partition with (a of S) begin from S insert into B end",  # noqa: E501
            "duplicate-query-name",
            "'p'",
        ),
        (
            "partition with (a of S) begin @info(name='q') from S insert into A; @info(name='q') from S insert into B end",  # noqa: E501
            "duplicate-query-name",
            "'q'",
        ),
        ("partition with (a of S, b of S) begin from S insert into O; end", "duplicate-partition-key", "'S'"),
        ("partition with (v of Tb) begin from S insert into O; end", "not-a-stream", "named windows"),
        ("partition with (b of Ag) begin from S insert into O; end", "not-a-stream", "named windows"),
        ("partition with (a + 1 as 'x' of S) begin from S insert into O; end", "not-a-condition", "range"),
        ("partition with (x as 'x' of T) begin from T insert into O; end", "bare-range", "write `x == true`"),
        ("partition with (true as 'x' of S) begin from S insert into O; end", "bare-range", "the condition of a range"),
        ("partition with (sum(a) of S) begin from S insert into O; end", "aggregate-not-here", "partition key"),
        ("partition with (a of S) begin from #M insert into O; end", "unknown-stream", "'#M'"),
        ("@purge(enable='true') partition with (a of S) begin from S insert into O; end", "missing-option", "idle"),
        *(
            (
                f"@purge(enable='true', idle.period='{time}') partition with (a of S) begin from S insert into O; end",
                "not-a-time",
                "write one number of sec",
            )
            for time in ("1000", "5 millisec", "2 weeks", "1.5 sec", " 1 sec", "hour", "2147483648 sec")
        ),
    ],
)
def test_each_mistake_has_its_code_and_a_way_out(query: str, code: str, words: str) -> None:
    text = DEFINITIONS + query
    error = refusal(text)
    assert [problem.code for problem in error.problems] == [code]
    assert words in error.render(text)


@pytest.mark.parametrize(
    ("definition", "code"),
    [
        ("define stream S (a long)", "duplicate-definition"),
        ("define table S (a int)", "duplicate-definition"),
        ("@async(workers='2') define stream T (a int, x bool)", "duplicate-definition"),
        ("define table Tb (k string, v int)", "duplicate-definition"),
        ("define stream `#U` (a int)", "marked-name"),
        ("define table `!S` (k string, v int)", "marked-name"),
        ("define trigger `#U` at every 1 sec", "marked-name"),
        ("from S select a insert into `#U`", "marked-name"),
        ("define window V (a int) nothing(3)", "unknown-window"),
        ("@PrimaryKey('z') define table U (k string)", "unknown-attribute"),
        ("@Index('k', 'v') define table U (k string, v int)", "wrong-option"),
        ("@IndexBy('k') define table U (k string)", "unknown-annotation"),
        ("@store(type='mongodb') @PrimaryKey('z') define table U (k string)", "unknown-attribute"),
        ("@OnError(action='SHOUT') define stream U (a int)", "unknown-option"),
        ("@async(workers='0') define stream U (a int)", "wrong-option"),
        ("define function f[cobol] return int { 1 }", "unknown-script-language"),
        ("define aggregation B from S select stdDev(a) as d aggregate every sec", "not-incremental"),
        ("define aggregation B from S select sum(a + 1) as d aggregate every sec", "not-incremental"),
        ("define aggregation B from S select sum(a) as d aggregate by a every sec", "wrong-time"),
        ("define aggregation B from S select sum(a) as d aggregate every day...sec", "wrong-durations"),
        ("@PrimaryKey('b') define aggregation B from S select b, sum(a) as d aggregate every sec", "key-not-here"),
    ],
)
def test_each_wrong_definition_has_its_code(definition: str, code: str) -> None:
    assert [problem.code for problem in refusal(DEFINITIONS + definition).problems] == [code]


@pytest.mark.parametrize(
    "query",
    [
        "from S select a output snapshot every 0 sec insert into O",
        "from every not S for 0 sec select 1 as a insert into O",
        "from every not S for 0 milliseconds and e1=S select e1.a insert into O",
        "from e1=S -> every (not S for 0 sec -> e2=S) within 1 min select e1.a insert into O",
    ],
)
def test_what_would_repeat_without_time_is_refused(query: str) -> None:
    assert [problem.code for problem in refusal(f"define stream S (a int); {query};").problems] == ["no-time"]


def test_a_silence_of_no_time_that_comes_once_is_taken() -> None:
    analyse(parse("define stream S (a int); from e1=S -> not S for 0 sec select e1.a insert into O;"))


def test_a_table_with_a_store_may_be_indexed_as_the_store_likes() -> None:
    app = analyse(
        parse("""
        @store(type='mongodb') @Index('k', 'v') @Index('k') @IndexBy('v:1 {background:true}')
        define table T (k string, v int);
    """)
    )
    assert app.tables["T"].indexes == ("k", "v")


@pytest.mark.parametrize(
    ("annotation", "code"),
    [
        ("@app:playback(idle.time='1 sec')", "missing-option"),
        ("@app:playback(idle.tame='1 sec', increment='1 sec')", "unknown-option"),
        ("@app:playback(idle.time='soon', increment='1 sec')", "not-a-time"),
        ("@app:playback(idle.time='1 sec', increment='2')", "not-a-time"),
        ("@app:playback(idleTime='1 sec', increment='1 sec')", "unknown-option"),
        ("@app:playback('true')", "unknown-option"),
        ("@app:name('a') @app:name('b')", "duplicate-annotation"),
        ("@app:statistics('true') @app:statistics('detail')", "duplicate-annotation"),
        ("@app:name('a', 'b')", "duplicate-annotation-key"),
        ("@app:statistics('true', 'false')", "duplicate-annotation-key"),
        ("@app:async", "unknown-annotation"),
    ],
)
def test_each_wrong_app_annotation_has_its_code(annotation: str, code: str) -> None:
    assert code in [problem.code for problem in refusal(f"{annotation} define stream S (a int)").problems]


def test_all_problems_of_an_app_are_told_at_once_in_text_order() -> None:
    text = """define stream S (a int);
        from S[b > 1 and c] select nope(a) as x, d insert into O;
        from O select whatever insert into P;
        from Q select a insert into R;
        from S select A insert into O2;"""
    error = refusal(text)
    assert [(problem.code, problem.span.line) for problem in error.problems if problem.span] == [
        ("unknown-attribute", 2),
        ("unknown-attribute", 2),
        ("unknown-function", 2),
        ("unknown-attribute", 2),
        ("unknown-stream", 4),
        ("unknown-attribute", 5),
    ]


def test_a_problem_is_shown_under_the_words_that_are_wrong() -> None:
    text = "define stream Departures (origin string);\nfrom Departure select origin insert into Out;"
    assert refusal(text).render(text) == (
        "line 2, column 6: stream 'Departure' is not defined [unknown-stream]\n"
        "    from Departure select origin insert into Out;\n"
        "         ^^^^^^^^^\n"
        "hint: did you mean 'Departures'?"
    )


@pytest.mark.parametrize(
    "text",
    [
        "define stream T (a int, x bool);",
        "@PrimaryKey('k') define table Tb (k string, v int);",
        "@PrimaryKey('k', 'k') define table U (k string);",
        "@PrimaryKey(' k ') @Index(' v ') define table U (k string, v int);",
        "from T select x having instanceOfBoolean(x) insert into O;",
        "partition with (instanceOfBoolean(x) as 'y' or not x as 'n' of T) begin from T insert into O; end;",
        "from S select b as k, a as v update Tb set Other.v = v on Tb.k == k;",
    ],
)
def test_what_siddhi_takes_is_taken(text: str) -> None:
    analyse(parse(DEFINITIONS + text))


@pytest.mark.parametrize("qualifier", ["S.", "Other.", "Tb.", "e2[last].", "#S."])
def test_execution_plans_do_not_look_at_qualifiers_where_there_is_one_input(qualifier: str) -> None:
    query = "from S[{0}a > 1] select {0}a, sum({0}t) as n group by {0}b having {0}n > 1 order by {0}a insert into O;"
    partition = "partition with ({0}b of S) begin from S insert into P; end;"
    text = f"@Plan:name('p') {DEFINITIONS} {query} {partition}"
    qualified, plain = (analyse(parse(text.format(qualifier))) for qualifier in (qualifier, ""))
    assert qualified.elements == plain.elements


@pytest.mark.parametrize(
    "query",
    [
        "from p=S[s.a > 1] select p.a insert into O;",
        "from S[Other.k == b in Tb] insert into O;",
        "from S as s join T as t on S.a == t.a select s.a insert into O;",
    ],
)
def test_execution_plans_look_at_qualifiers_elsewhere(query: str) -> None:
    assert [problem.code for problem in refusal(f"@Plan:name('p') {DEFINITIONS} {query}").problems] == [
        "unknown-reference"
    ]


def test_queries_of_several_partitions_may_have_one_name() -> None:
    query = "@info(name='q') from S insert into"
    inside = f"partition with (a of S) begin {query} A; end; partition with (a of S) begin {query} B; end;"
    app = analyse(parse(f"{DEFINITIONS} {inside} {query} C;"))
    names = [query.name for element in app.elements for query in getattr(element, "queries", (element,))]
    assert names[-1] == "q"
    assert len(set(names)) == 3
