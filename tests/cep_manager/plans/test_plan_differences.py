"""What is shown of two plans of one name that differ."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cep_manager.plans.differences import (
    AND_MORE,
    LARGEST_PARSED,
    MOST_COMPARED,
    MOST_LINES,
    ONLY_SECRETS,
    difference,
    normal_form,
    other_text,
)

RISE = """@Plan:name('Rise') -- temperatures
define stream Temps (room string, temp double);
define stream Alerts (room string);
@info(name='rise') from every e1=Temps, e2=Temps[e1.temp + 1 < temp] select e2.room insert into Alerts;
"""


def test_one_constant_is_the_whole_difference() -> None:
    lines = difference(RISE, RISE.replace("temp + 1", "temp + 2"))
    assert lines[:2] == ("--- deployed", "+++ refused")
    removed, added = ([one for one in lines[2:] if one.startswith(mark)] for mark in "-+")
    assert [one.strip("- ") for one in removed] == ["from every e1=Temps, e2=Temps[e1.temp + 1 < temp]"]
    assert [one.strip("+ ") for one in added] == ["from every e1=Temps, e2=Temps[e1.temp + 2 < temp]"]


@pytest.mark.parametrize(
    "other",
    [
        RISE.replace("-- temperatures", "/* of rooms */"),
        RISE.replace("from every", "FROM   every"),
        RISE.replace(" select", "\n\tselect"),
    ],
)
def test_comments_layout_and_case_of_keywords_are_no_part_of_the_normal_form(other: str) -> None:
    assert other != RISE
    assert normal_form(other) == normal_form(RISE)


def test_comments_are_shown_where_nothing_else_differs() -> None:
    lines = difference(RISE, RISE.replace("temperatures", "of rooms"))
    assert "-@Plan:name('Rise') -- temperatures" in lines
    assert "+@Plan:name('Rise') -- of rooms" in lines


def test_another_order_of_queries_is_a_difference() -> None:
    first, second = "from A select a insert into B;", "from A select a insert into C;"
    head = "@Plan:name('P') define stream A (a int);"
    assert difference(f"{head} {first} {second}", f"{head} {second} {first}")


def test_a_text_that_is_no_longer_a_plan_is_compared_by_its_lines() -> None:
    assert "-from nowhere" in difference("@Plan:name('Rise')\nfrom nowhere", RISE)


def test_long_differences_are_cut_and_say_so() -> None:
    before = "\n".join(f"-- {number}" for number in range(500))
    lines = difference(before, before.replace("--", "//"))
    assert len(lines) == MOST_LINES + 1
    assert lines[-1].endswith("more lines")
    long = "-- " + "x" * LARGEST_PARSED
    assert all(len(line) < 400 for line in difference(long, long + "y"))


def test_the_error_says_what_to_do_and_has_the_difference_for_programs() -> None:
    error = other_text("Rise", RISE, RISE.replace("+ 1", "+ 2"))
    assert error.message == "a plan named Rise is deployed with another text; replace it, or choose another name"
    assert error.details == {"difference": list(difference(RISE, RISE.replace("+ 1", "+ 2")))}


MAIL = """@Plan:name('Mail')
@sink(type='email', address='{address}', password='{hidden}', @map(type='text'))
define stream Alerts (room string);
"""


@pytest.mark.parametrize("comment", ["", "\n-- {} is no plan, and is compared by its lines;"])
def test_secrets_of_either_plan_are_not_in_the_difference(comment: str) -> None:
    before = MAIL.format(address="a@example.com", hidden="first-secret") + comment.format("one")
    after = MAIL.format(address="b@example.com", hidden="second-secret") + comment.format("other")
    shown = "\n".join(difference(before, after))
    assert "a@example.com" in shown
    assert "b@example.com" in shown
    assert "-secret" not in shown
    assert difference(before, before.replace("first", "second")) == (ONLY_SECRETS,)


def test_a_part_of_long_texts_is_compared_with_the_numbers_of_its_lines() -> None:
    """Aligning all of them would take minutes: lines that are often there fit many others."""
    same = [f"-- {number % 150}" for number in range(5_000)]
    before, after = [*same, "-- end"], [*same, "-- end"]
    before[3_000], after[4_000] = "-- before", "-- after"
    assert difference("\n".join(before), "\n".join(before[:3_000] + before[3_001:])) == (
        "--- deployed", "+++ refused", "@@ -3000,3 +3000,2 @@", " -- 149", "--- before", " -- 1",
    )  # fmt: skip
    after.insert(2_999, "-- more")
    lines = difference("\n".join(before), "\n".join(after))
    assert lines[2:5] == ("@@ -2999,4 +2999,5 @@", " -- 148", "+-- more")
    assert lines[-1] == AND_MORE
    assert "+-- after" not in lines


def test_no_more_lines_are_aligned_than_is_soon_done(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def unified_diff(one: list[str], other: list[str], *_: str, **_more: object) -> Iterator[str]:
        asked.extend((len(one), len(other)))
        return iter(("--- deployed", "+++ refused"))

    monkeypatch.setattr("difflib.unified_diff", unified_diff)
    difference(*("\n".join(f"{sign} {number % 150}" for number in range(20_000)) for sign in ("--", "//")))
    assert asked == [MOST_COMPARED, MOST_COMPARED]
