"""What editors are told of the language is what the language has."""

import re
from importlib.resources import files

import pytest

from cep_manager.authoring.language import ANNOTATIONS, KEYWORDS, UNITS, describe_language
from siddhi.analysis.catalogue import builtin_registry
from siddhi.language.parser import parse
from siddhi.scripts.language import ScriptPolicy

GRAMMAR = files("siddhi.language").joinpath("grammar.lark").read_text(encoding="utf-8")


def test_keywords_are_those_of_the_grammar() -> None:
    words = set(re.findall(r"^_?[A-Z]+\.5: /([a-z]+)\(\?!", GRAMMAR, flags=re.MULTILINE))
    units = {"millisec", "sec", "min", *UNITS}
    assert words - {f"{unit}s" for unit in units} == set(KEYWORDS)
    assert all(re.search(rf"^[A-Z]+\.5: /{unit}(?:s\?)?\(", GRAMMAR, flags=re.MULTILINE) for unit in UNITS)


def test_everything_that_may_be_called_is_told_with_signature_and_summary() -> None:
    told = describe_language(ScriptPolicy())
    assert len(told.callables) == len(list(builtin_registry()))
    assert all(one.signatures and one.summary for one in told.callables)
    (window,) = [one for one in told.callables if (one.kind, one.name) == ("window", "time")]
    assert window.signatures[0].startswith("time(")
    assert "str:upper" in {one.name for one in told.callables if one.kind == "function"}


def test_script_languages_are_those_that_the_manager_allows() -> None:
    assert describe_language(ScriptPolicy()).script_languages == ("python", "javascript")
    assert describe_language(ScriptPolicy(frozenset({"python"}), "")).script_languages == ("python",)
    assert describe_language(ScriptPolicy(frozenset(), "set it")).script_languages == ()


@pytest.mark.parametrize("text", [text for text, _ in ANNOTATIONS])
def test_every_annotation_that_is_offered_can_be_parsed(text: str) -> None:
    after = "define stream S (a int);"
    assert parse(f"@Plan:name('P') {text} {after}") if text.startswith("@Plan") else parse(f"{text} {after}")
