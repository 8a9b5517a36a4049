"""PROTOCOL.md, the pages beside the messages, and the code say the same."""

import re
from pathlib import Path
from typing import get_args, get_type_hints

import msgspec
import pytest

from cep_common.ids import Endpoint, PlanKey
from cep_common.protocol import codec
from cep_common.protocol.message_types import message_types
from cep_common.protocol.registry import Message

ROOT = Path(__file__).parents[3]
COMMON = ROOT / "cep_common"
PAGES = sorted((COMMON / "protocol").glob("*.md"))
TEXT = "\n".join(page.read_text(encoding="utf-8") for page in (COMMON / "PROTOCOL.md", *PAGES))
SECTIONS = dict(re.findall(r"^### `([a-z-]+)`\n(.*?)(?=^##|\Z)", TEXT, flags=re.MULTILINE | re.DOTALL))
PACKAGES = ("cep_common", "cep_manager", "cep_worker", "topology")


def rows(section: str) -> list[tuple[str, str, str]]:
    return re.findall(r"^\| `(\w+)` \| ([^|]*) \| ([^|]*) \|$", section, flags=re.MULTILINE)


def inner_structs(kind: object) -> set[type[msgspec.Struct]]:
    """The structs that a field's type is made of, but for those that the page explains once."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        if kind in (PlanKey, Endpoint):
            return set()
        return {kind}.union(*(inner_structs(hint) for hint in get_type_hints(kind).values()))
    return set().union(*(inner_structs(part) for part in get_args(kind)))


def test_every_message_has_a_section_and_every_section_a_message() -> None:
    assert set(SECTIONS) == set(message_types())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_describes_the_messages_of_the_module_beside_it(page: Path) -> None:
    described = re.findall(r"^### `([a-z-]+)`$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert {message_types()[name].__module__.rpartition(".")[2] for name in described} == {page.stem}


@pytest.mark.parametrize("name", sorted(message_types()))
def test_a_messages_fields_are_described_in_order(name: str) -> None:
    described = [field for field, _, _ in rows(SECTIONS[name])]
    assert described == list(message_types()[name].__struct_fields__)
    assert described or "It has no fields" in " ".join(SECTIONS[name].split())


@pytest.mark.parametrize("name", sorted(message_types()))
def test_nested_fields_are_named_where_they_occur(name: str) -> None:
    message: type[Message] = message_types()[name]
    for field, _, meaning in rows(SECTIONS[name]):
        for struct in inner_structs(get_type_hints(message)[field]):
            missing = [inner for inner in struct.__struct_fields__ if f"`{inner}`" not in meaning]
            assert not missing, f"{name}.{field} does not name {missing} of {struct.__name__}"


@pytest.mark.parametrize("name", sorted(message_types()))
def test_a_message_says_who_sends_it_and_what_it_is_answered_with(name: str) -> None:
    section = " ".join(SECTIONS[name].split())
    assert re.match(r"(Sent (by|over|from)|Pushed by|The (manager|server|worker)'s answer to)", section)
    for answered in re.findall(r"(?:Answered|Acknowledged) with `([a-z-]+)`", section):
        assert answered in message_types()


def test_requests_and_answers_name_each_other() -> None:
    asked = {
        (name, answer)
        for name, section in SECTIONS.items()
        for answer in re.findall(r"Answered with `([a-z-]+)`", " ".join(section.split()))
    }
    told = {
        (request, name)
        for name, section in SECTIONS.items()
        for request in re.findall(r"answer to `([a-z-]+)`", " ".join(section.split()))
    }
    assert {pair for pair in asked if pair[1] != "acknowledge"} == told


def test_every_refusal_that_the_code_gives_by_name_is_listed() -> None:
    listed = set(re.findall(r"^\| `([a-z-]+)` \| [a-z ,]+ \|", TEXT, flags=re.MULTILINE))
    sources = [path.read_text(encoding="utf-8") for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    given = {code for source in sources for code in re.findall(r"Rejected\((?:code=)?\"([a-z-]+)\"", source)}
    assert given
    assert given <= listed


def test_magic_and_sizes_are_those_of_the_codec() -> None:
    assert f"`{codec.MAGIC.decode()}`" in TEXT
    assert f"at most {codec.MAXIMUM_CONTROL_BYTES // 2**20} MiB" in TEXT
    assert f"at most {codec.MAXIMUM_DATA_BYTES // 2**20} MiB" in TEXT
