"""For any text, parsing, analysing and building an app gives an app or a `SiddhiError`."""

from __future__ import annotations

import random
import re

import pytest
from recorded_cases import recorded_cases

from siddhi.analysis.analyser import analyse
from siddhi.engine.app_runtime import AppRuntime
from siddhi.errors import SiddhiError
from siddhi.language.parser import parse
from siddhi.language.printer import print_app

TOKEN = re.compile(r"\s+|'[^']*'|\"[^\"]*\"|\w+|->|[<>=!]=|\.\.\.|.", re.DOTALL)
EXTREMES = ["0", "-1", "2147483648", "9223372036854775808", "99999999999999999999", "1e309", "3.5e39f", "0.0", "''"]
EXTREMES += ["'\U0001f600'", "名前", "\x00", "\ufeff", "`", '"""', "/*", "--", "${", "${X}", "((((((", "<5:2>", "<0:0>"]
EXTREMES += ["e1[999999999999]", "null", "every", "not", "select"]


def mutated(app: str, others: list[str], generator: random.Random) -> str:
    """`app` with some tokens deleted, swapped, doubled, or replaced by extremes or by tokens of another app."""
    tokens = TOKEN.findall(app)
    for _ in range(generator.choice([1, 1, 2, 4])):
        place, other = generator.randrange(len(tokens)), generator.randrange(len(tokens))
        match generator.randrange(5):
            case 0:
                tokens[place] = ""
            case 1:
                tokens[place], tokens[other] = tokens[other], tokens[place]
            case 2:
                tokens[place] *= 2
            case 3:
                tokens[place] = generator.choice(EXTREMES)
            case _:
                tokens[place] = generator.choice(TOKEN.findall(generator.choice(others)))
    return "".join(tokens)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.cluster) for seed in (1, 2, 3))])
def test_mutated_apps_and_random_bytes_end_in_an_app_or_in_an_error_of_siddhi(seed: int) -> None:
    generator = random.Random(seed)  # noqa: S311 - no secret
    apps = [case.app for case in recorded_cases() if case.app.strip()]
    texts = [mutated(generator.choice(apps), apps, generator) for _ in range(250)]
    texts += [generator.randbytes(generator.randrange(80)).decode("utf-8", "replace") for _ in range(50)]
    for text in texts:
        try:
            AppRuntime(analyse(parse(text)))
        except SiddhiError as error:
            error.render(text)


def test_a_printed_app_of_the_suite_reads_back_as_the_same_app() -> None:
    for case in recorded_cases()[::20]:
        if "error" not in case.document:
            app = parse(case.app)
            assert parse(print_app(app)) == app
