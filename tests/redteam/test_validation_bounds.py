"""Nobody stops a manager with the text of a plan: validating one takes a bounded time, whatever stands in it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from generated_plans import SHAPES, S
from long_form import of_length

from cep_manager.authoring.compiler import validate_plan
from cep_manager.authoring.model import Validation
from query_plan import examination
from siddhi.errors import MOST_PROBLEMS
from siddhi.language.bounds import LONGEST_NUMBER, MOST_CHARACTERS, MOST_WORDS
from siddhi.scripts.language import ScriptPolicy

SCRIPTS = ScriptPolicy.switched({"javascript": True, "python": True}, "{language}")
SIZES = of_length((1_500,), (1_000, 10_000, 100_000, 1_000_000))
MOST_S = of_length(2.0, 4.0)
"""CPU time for the largest: some ten times what it takes, for slow hosts."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Fail what takes longer in CPU time, while it does."""

    def late(*_: object) -> None:
        raise AssertionError(f"stopped after {seconds} s of CPU time")

    former = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, former)


def validated(text: str) -> Validation:
    with within(MOST_S):
        return validate_plan(text, SCRIPTS)


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    """The tables of the parser are there: making them is not a plan's fault."""
    validate_plan(S, SCRIPTS)


@pytest.mark.thorough
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_of_plan_is_judged_in_a_bounded_time(shape: str, size: int) -> None:
    found = validated(SHAPES[shape](size))
    assert found.valid is (not found.problems)
    assert len(found.problems) <= MOST_PROBLEMS + 1
    assert len(found.warnings) <= MOST_PROBLEMS + 1
    assert all(len(one.rendered) < 3_000 for one in found.problems)


@pytest.mark.parametrize(
    "shape",
    [
        "a long number",
        "a long fraction",
        "a long exponent",
        "a long time",
        "a long count",
        "a long index",
        "a long rate",
    ],
)
def test_numbers_of_many_digits_are_problems_with_their_place(shape: str) -> None:
    text = SHAPES[shape](100_000)
    (problem,) = validated(text).problems
    column = text.splitlines()[2].index("99") + 1
    assert (problem.code, problem.line, problem.column) == ("number-too-long", 3, column)


@pytest.mark.parametrize("suffix", ["", "L", "f", "d", ".5", "e5", ".5e5f"])
def test_numbers_of_few_digits_are_none(suffix: str) -> None:
    digits = LONGEST_NUMBER - len(suffix)
    found = validated(f"{S}from S[a > {'0' * (digits - 1)}1{suffix}] select a insert into O;")
    assert found.valid, found.problems


@pytest.mark.parametrize("word", ["9" * 100_000 + "x", "x" * 100_000, "1e" * 100_000, "'" * 100_000])
def test_messages_repeat_no_long_words(word: str) -> None:
    (problem,) = validated(f"{S}from S {word} select a insert into O;").problems
    assert len(problem.message) < 400
    assert len(problem.rendered) < 1_000


def test_texts_of_too_many_words_are_refused_before_they_are_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examination, "parse", lambda _: pytest.fail("parsed"))
    for text in (
        "a " * (MOST_WORDS + 1),
        " " * (MOST_CHARACTERS + 1),
        f"{S}{'-' * 3 * MOST_WORDS}".replace("--", "- "),
    ):
        (problem,) = validated(text).problems
        assert problem.code == "too-long"


def test_an_operator_may_allow_more_words() -> None:
    text = S + "from S[a > 1] select a insert into O;\n" * 20
    (problem,) = validate_plan(text, SCRIPTS, most_words=200).problems
    assert problem.code == "too-long"
    assert validate_plan(text, SCRIPTS, most_words=1_000).valid


def test_a_text_of_few_words_may_be_long() -> None:
    assert validated(f"{S}-- {'x ' * 200_000}\nfrom S[b == '{'y ' * 100_000}'] select a insert into O;").valid


@pytest.mark.parametrize(
    "written",
    ["@dist(parallel='1025')", "@dist(parallel='100000')", f"@dist(parallel='{'9' * 10_000}')", "@dist(parallel='0')"],
)
def test_nobody_asks_for_more_instances_than_can_be_placed(written: str) -> None:
    found = validated(f"{S}{written} from S select a insert into O;")
    assert [one.code for one in found.problems] == ["parallel-not-positive"]
    assert len(found.problems[0].message) < 200


@pytest.mark.parametrize("key", ["receiverParallelism", "publisherParallelism", "workers"])
def test_nor_for_more_ends_or_workers(key: str) -> None:
    text = S.replace("@Plan:name('P')", f"@Plan:name('P') @Plan:dist({key}='1025')")
    found = validated(f"{text}from S select a insert into O;")
    assert [one.code for one in found.problems] == ["parallel-not-positive"]


def test_nor_in_several_stages() -> None:
    stages = "".join(f"@dist(execGroup='g{i}', parallel='512') from S select a insert into O{i};" for i in range(2))
    assert [one.code for one in validated(S + stages).problems] == ["too-many-instances"]
    assert validated(S + stages.replace("512", "511")).valid
