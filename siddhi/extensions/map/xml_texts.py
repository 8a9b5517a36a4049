"""Convert XML texts to maps, and maps to XML texts.

<order><id>7</id><to><city>Oslo</city></to></order>        {"id": 7, "to": {"city": "Oslo"}}

The outermost element only holds the others. Attributes, and texts beside elements, are left out; of several elements of
one name the last counts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from xml.parsers import expat

from siddhi.engine.operators.functions.conversion import java_text
from siddhi.engine.operators.functions.rows import RowError
from siddhi.language.ast import AttributeType
from siddhi.nesting import TOO_DEEP, nests_too_deeply

_NUMBER = re.compile(r"-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fFdDlL]?")
_NO_OCTAL = re.compile(r"-?0\d*[89]\d*[fFdDlL]?")
_READ = re.compile(r"-?\d*\.?\d*(?:E-?\d+)?")
"""The part of a text that Java's NumberFormat parses as a number."""
_LARGEST_LONG = 2**63 - 1


@dataclass(slots=True)
class _Element:
    name: str
    texts: list[str] = field(default_factory=list)
    children: dict[str, object] | None = None

    def value(self) -> object:
        return _value("".join(self.texts)) if self.children is None else self.children


def from_xml(text: str) -> dict[str, object]:
    """Return the map of the elements inside the outermost one.

    Raise `RowError` for a text that is not XML, nests too deeply, or declares a document type, whose entities could
    expand without end.
    """
    open_elements = [_Element("")]
    # The text is decoded already, whatever encoding it declares.
    parser = expat.ParserCreate("utf-8", namespace_separator="}")

    def start(name: str, _attributes: object) -> None:
        open_elements.append(_Element(f"{{{name}" if "}" in name else name))

    def end(_name: str) -> None:
        closed = open_elements.pop()
        parent = open_elements[-1]
        if len(open_elements) == 1:
            parent.children = closed.children or {}
        else:
            parent.children = parent.children or {}
            parent.children[closed.name] = closed.value()

    def hold(text: str) -> None:
        open_elements[-1].texts.append(text)

    parser.StartDoctypeDeclHandler = _refuse_document_type
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = hold
    try:
        parser.Parse(text.encode(), True)  # noqa: FBT003 - expat takes it by position
    except (expat.ExpatError, UnicodeEncodeError) as error:
        raise RowError(f"no XML: {error}") from error
    found = open_elements[0].children or {}
    if nests_too_deeply(found):
        raise RowError(TOO_DEEP)
    return found


def _refuse_document_type(*_: object) -> None:
    raise RowError("an XML text with a document type is not read")


def _value(text: str) -> object:
    """Return the value of an element's text: a bool, a number as Java reads it, or the text itself."""
    if text in {"true", "false"}:
        return text == "true"
    if not _NUMBER.fullmatch(text) or _NO_OCTAL.fullmatch(text):
        return text
    found = _READ.match(text)
    digits = found[0] if found else "0"
    number = float(digits)
    if not number.is_integer() or abs(number) > float(_LARGEST_LONG):
        return number
    whole = int(digits) if digits.lstrip("-").isdecimal() else int(number)
    return whole if abs(whole) <= _LARGEST_LONG else number


def to_xml(items: dict[object, object], root: str | None = None) -> str:
    """Return the map's entries as elements, inside one called `root` if given.

    Texts are not escaped, as in Siddhi. Raise `RowError` for a value that is null.
    """
    inside = "".join(f"<{_text(key)}>{_inside(item)}</{_text(key)}>" for key, item in items.items())
    return inside if root is None else f"<{root}>{inside}</{root}>"


def _inside(item: object) -> str:
    return to_xml(item) if isinstance(item, dict) else _text(item)


def _text(item: object) -> str:
    text = java_text(item, AttributeType.OBJECT)
    if text is None:
        raise RowError("null has no XML")
    return text
