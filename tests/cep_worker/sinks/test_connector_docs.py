"""The pages of connectors name every type of source and sink, and every option with its default."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from cep_worker.connector_runtime.running_sources import SOURCE_TYPES
from cep_worker.connector_runtime.sink_types import SINK_TYPES
from cep_worker.formats.sink_mappers.registry import SINK_MAPPERS
from cep_worker.formats.source_mappers.registry import SOURCE_MAPPERS
from query_plan.connectors.judging import CONNECTORS, KEY_VALUE, MAPPERS
from query_plan.connectors.options import Options

DOCS = Path(__file__).parents[3] / "docs"
PAGES = {
    page: page.read_text(encoding="utf-8")
    for page in (DOCS / "connectors.md", *sorted((DOCS / "connectors").glob("*.md")))
}


def sections(text: str) -> dict[str, str]:
    """What stands under each title."""
    return dict(re.findall(r"^##+ (.+?)\n(.*?)(?=^##+ |\Z)", text, re.MULTILINE | re.DOTALL))


SECTIONS = {title: text for page in PAGES.values() for title, text in sections(page).items()}
DOCUMENTED: list[tuple[str, type[Options]]] = [
    *((f"Source `{name}`", options) for name, options in CONNECTORS["source"].items()),
    *((f"Sink `{name}`", options) for name, options in CONNECTORS["sink"].items()),
    *((f"Source mapper `{name}`", options) for name, options in MAPPERS["source"].items()),
    ("Mapper `keyvalue`", KEY_VALUE["source"]),
    *((f"Sink mapper `{name}`", options) for name, options in MAPPERS["sink"].items() if name != "ndjson"),
]


def test_workers_run_every_type_that_validation_knows() -> None:
    assert (set(SOURCE_TYPES), set(SINK_TYPES)) == (set(CONNECTORS["source"]), set(CONNECTORS["sink"]))
    assert (set(SOURCE_MAPPERS), set(SINK_MAPPERS)) == (set(MAPPERS["source"]), set(MAPPERS["sink"]))


def rows(section: str) -> dict[str, str]:
    """The options of a section's tables with the text of their defaults."""
    return dict(re.findall(r"^\| `([\w.]+)` \| ([^|]*) \|", SECTIONS[section], re.MULTILINE))


@pytest.mark.parametrize(("section", "options"), DOCUMENTED)
def test_every_option_is_documented_with_its_default(section: str, options: type[msgspec.Struct]) -> None:
    documented = rows(section)
    for field in msgspec.structs.fields(options):
        assert field.encode_name in documented, f"{field.encode_name} is missing in {section}"
        default = documented[field.encode_name]
        if field.required:
            assert default == "required"
        elif field.default != "":
            assert default.strip("`") == str(field.default)


@pytest.mark.parametrize("section", sorted({section for section, _ in DOCUMENTED}))
def test_nothing_else_is_documented_as_an_option(section: str) -> None:
    known = {
        field.encode_name
        for name, options in DOCUMENTED
        if name == section
        for field in msgspec.structs.fields(options)
    }
    assert set(rows(section)) == known


@pytest.mark.parametrize(("section", "mappers"), [("Mappers of sinks", SINK_MAPPERS)])
def test_every_mapper_is_documented(section: str, mappers: dict[str, object]) -> None:
    assert set(rows(section)) == set(mappers)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)#([\w-]+)\)", PAGES[page]):
        text = (page.parent / target).read_text(encoding="utf-8") if target else PAGES[page]
        titles = {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in sections(text)}
        assert anchor in titles, f"{target}#{anchor}"
