"""Writes the tables of the documentation that the code knows: `python tools/write_reference.py`.

They list what plans may call, and the rules of validation.
"""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from query_plan.validation import CHECKS
from siddhi.analysis.catalogue import builtin_registry
from siddhi.language.ast import AttributeType
from siddhi.plugins.extension import Extension
from siddhi.plugins.packs import packs
from siddhi.registry import Argument, Arguments, CallError, Declaration, Kind, Parameter

_DOCS = Path(__file__).parents[1] / "docs"
_BEGIN = "<!-- What follows is written by tools/write_reference.py. -->"
_END = "<!-- What is written by tools/write_reference.py ends here. -->"
_GENERATED = "<!-- This page is written by tools/write_reference.py. -->"
_DIFFERENCES = "[Extension packs](../extension-packs.md) lists all packs, and where they differ from Siddhi's."
_VALIDATION = "[Validation](validation.md) shows how findings are reported. Codes are stable."
_PREFIXES = {Kind.WINDOW: "#window.", Kind.STREAM_FUNCTION: "#"}
_TITLES = {
    Kind.WINDOW: "Windows",
    Kind.AGGREGATOR: "Aggregators",
    Kind.FUNCTION: "Functions",
    Kind.STREAM_FUNCTION: "Stream functions",
}


def pages() -> dict[Path, str]:
    """Return the text that each page should have."""
    builtins = _DOCS / "siddhiql" / "built-ins.md"
    return {
        builtins: _with_reference(builtins.read_text(encoding="utf-8"), _builtins()),
        _DOCS / "query-plan" / "rules.md": _rules(),
        **{_DOCS / "siddhiql" / "packs" / f"{pack.name}.md": _pack(pack) for pack in packs()},
    }


def _with_reference(page: str, reference: str) -> str:
    before, _, written = page.partition(_BEGIN)
    return f"{before}{_BEGIN}\n\n{reference}\n{_END}{written.partition(_END)[2]}"


def _pack(pack: Extension) -> str:
    rows = [f"| {d.kind.value} | {_calls(d)} | {d.summary} |" for d in pack.declarations]
    head = [f"# Extension pack `{pack.name}`", "", _GENERATED, "", _DIFFERENCES, "", "| kind | call | gives |"]
    return "\n".join([*head, "|---|---|---|", *rows, ""])


def _rules() -> str:
    """Return the page of the rules of validation: each once, in the order of the checks."""
    rules = dict.fromkeys(rule for check in CHECKS for rule in check.rules)
    rows = [
        f"| `{rule.code}` | {rule.severity.value} | {rule.meaning} | {_from_folder(rule.remedy)} |" for rule in rules
    ]
    head = ["# Rules of validation", "", _GENERATED, "", _VALIDATION, "", "| code | | broken when | what fixes it |"]
    return "\n".join([*head, "|---|---|---|---|", *rows, ""])


def _from_folder(text: str) -> str:
    """Return `text`, whose links start at `docs`, with links that start at a folder of it."""
    return text.replace("](", "](../")


def _builtins() -> str:
    builtins = [declaration for declaration in builtin_registry() if not declaration.namespace]
    return "\n".join(_kind(kind, list(found)) for kind, found in groupby(builtins, key=lambda found: found.kind))


def _kind(kind: Kind, declarations: list[Declaration]) -> str:
    gives = kind in {Kind.AGGREGATOR, Kind.FUNCTION}
    head = "| call | what it is | type | parameters |" if gives else "| call | what it is | parameters |"
    rows = [
        f"| {_calls(d)} | {d.summary} |{f' {_result(d)} |' if gives else ''} {_parameters(d)} |" for d in declarations
    ]
    return "\n".join([f"### {_TITLES[kind]}", "", head, "|---" * (head.count("|") - 1) + "|", *rows, ""])


def _calls(declaration: Declaration) -> str:
    prefix = _PREFIXES.get(declaration.kind, "")
    return "<br>".join(f"`{prefix}{signature}`" for signature in declaration.signatures()).replace("|", "\\|")


def _parameters(declaration: Declaration) -> str:
    overloads = declaration.overloads_of(dialect_3x=False)
    parameters = [parameter for overload in overloads for parameter in overload.parameters]
    answers = dict.fromkeys(f"`{p.name}`{_kind_of(p)}: {p.description}" for p in parameters if p.description)
    return "<br>".join(answers)


def _kind_of(parameter: Parameter) -> str:
    if parameter.constant:
        return " (constant)"
    return " (attribute)" if parameter.attribute else ""


def _result(declaration: Declaration) -> str:
    """Return the type of a call for each type of its last argument, as short as possible."""
    parameters = declaration.overloads[-1].parameters
    taken = [type_ for type_ in AttributeType if parameters and type_ in parameters[-1].types]
    results = {type_: _type_of_call(declaration, tuple(Argument(type_) for _ in parameters)) for type_ in taken}
    if not taken:
        return str(_type_of_call(declaration, ()))
    if None in results.values():
        return f"named by `{parameters[-1].name}`"
    if len(taken) > 1 and all(type_.value == result for type_, result in results.items()):
        return "that of the values"
    by_result: dict[str | None, list[str]] = {}
    for type_, result in results.items():
        by_result.setdefault(result, []).append(type_.value)
    if len(by_result) == 1:
        return str(next(iter(by_result)))
    return ", ".join(f"{result} for {' and '.join(types)}" for result, types in by_result.items())


def _type_of_call(declaration: Declaration, arguments: Arguments) -> str | None:
    """None when it depends on what a constant says."""
    if declaration.result is None:
        return None
    try:
        return declaration.result(arguments).value
    except CallError:
        return None


if __name__ == "__main__":
    for page, text in pages().items():
        page.parent.mkdir(exist_ok=True)
        page.write_text(text, encoding="utf-8")
