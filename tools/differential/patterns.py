"""Random patterns and sequences of all forms."""

from __future__ import annotations

from dataclasses import dataclass, field

from tools.differential.draw import Draw, optional
from tools.differential.expressions import Ref, condition, constant_comparison
from tools.differential.queries import insert
from tools.differential.schema import INPUT, INPUTS, GeneratedApp, refs
from tools.differential.selections import GeneratedSelection, selection

_SPANS = ("100 milliseconds", "200 milliseconds", "300", "1 sec")
_WITHIN = ("200 milliseconds", "500 milliseconds", "1 sec", "2 sec")


@dataclass(slots=True)
class _Chain:
    """A pattern in the making: the elements that conditions and the selection may refer to."""

    draw: Draw
    sequence: bool
    streams: tuple[str, ...]
    seen: list[tuple[str, bool]] = field(default_factory=list)
    """Aliases of elements before, each with whether it is counted."""
    count: int = 0

    def alias(self) -> str:
        self.count += 1
        return f"e{self.count}"

    def filter(self, share: float = 0.6) -> str:
        """Return a filter of an element, on its event and on those of the elements before."""
        if not self.draw.chance(share):
            return ""
        own = [ref for ref in refs(INPUT) if ref.text in ("k", "i", "p", "b")]
        kind = self.draw.number(0, 3)
        if self.seen and kind:
            alias, counted = self.draw.one(self.seen)
            index = self.draw.one(["[0]", "[last]", ""]) if counted else ""
            test = self.draw.one(["k == {0}.k", "i > {0}.i", "p != {0}.p", "i >= {0}.i and k == {0}.k", "i < {0}.i"])
            return optional(f"[{test.format(alias + index)}]")
        test = (
            constant_comparison(self.draw, self.draw.one(own)) if self.draw.chance(0.8) else condition(self.draw, own)
        )
        return optional(f"[{test}]")

    def stream(self) -> str:
        return self.draw.one(self.streams)

    def plain(self) -> str:
        """Return an element that one event matches."""
        text = f"{self.stream()}{self.filter()}"
        alias = self.alias()
        self.seen.append((alias, False))
        return f"{alias}={text}"

    def counted(self) -> str:
        """Return an element that several events match."""
        text = f"{self.stream()}{self.filter()}"
        counts = ["<2>", "<1:2>", "<2:3>", "<1:>", "<2:>", "<0:2>", "<:2>"]
        if self.sequence:
            counts = ["+", "*", "?", "<1:2>", "<2>", "<2:3>", "<0:1>"]
        alias = self.alias()
        self.seen.append((alias, True))
        return f"{alias}={text}{self.draw.one(counts)}"

    def logical(self) -> str:
        """Return two elements with `and` or `or` between, of which one may be absent."""
        word = self.draw.one(["and", "and", "or"])
        right = f"{self.stream()}{self.filter(0.5)}"
        left_name, right_name = self.alias(), self.alias()
        left = f"{self.stream()}{self.filter(0.5)}"
        kind = self.draw.number(0, 6)
        if kind == 0:
            span = f" for {self.draw.one(_SPANS)}" if word == "or" or self.draw.chance(0.4) else ""
            self.seen.append((right_name, False))
            return f"not {left}{span} {word} {right_name}={right}"
        self.seen += [(left_name, False), (right_name, False)]
        return f"{left_name}={left} {word} {right_name}={right}"

    def absent(self) -> str:
        """Return an absence of some time."""
        return f"not {self.stream()}{self.filter()} for {self.draw.one(_SPANS)}"

    def element(self, *, absences: bool) -> str:
        kind = self.draw.weighted([("plain", 6), ("counted", 2), ("logical", 1.4), ("absent", 1.2 if absences else 0)])
        return {"plain": self.plain, "counted": self.counted, "logical": self.logical, "absent": self.absent}[kind]()


def machine(draw: Draw, *, sequence: bool) -> tuple[str, list[tuple[str, bool]]]:
    """Return the text of a pattern or sequence, and the aliases of its elements with whether they are counted."""
    chain = _Chain(draw, sequence, tuple(draw.some(INPUTS, 1, 2)))
    size = draw.weighted([(1, 0.4), (2, 4), (3, 3), (4, 1)])
    arrow = ", " if sequence else " -> "
    parts: list[str] = []
    last_absent = False
    for _ in range(size):
        text = chain.element(absences=not last_absent and size != 1)
        last_absent = text.startswith("not ") and " and " not in text and " or " not in text
        parts.append(text)
    if not chain.seen:
        parts.append(chain.plain())
    text = parts[0] + "".join(optional(f"{arrow}{part}") for part in parts[1:])
    every = draw.chance(0.8)
    if every and not sequence and len(parts) > 1 and draw.chance(0.2):
        edge = draw.number(2, len(parts))
        grouped = arrow.join(parts[:edge])
        text = f"every ({grouped})" + "".join(optional(f"{arrow}{part}") for part in parts[edge:])
    elif not every and not sequence and len(parts) > 1 and draw.chance(0.2):
        text = f"{parts[0]} -> every {arrow.join(parts[1:2])}" + "".join(f"{arrow}{part}" for part in parts[2:])
    elif every:
        text = f"{optional('every ')}{text}"
    return text + draw.maybe(0.4, f" within {draw.one(_WITHIN)}"), chain.seen


def pattern_selection(draw: Draw, seen: list[tuple[str, bool]], *, rates: float = 0.06) -> GeneratedSelection:
    """Return a selection from the elements of a pattern."""
    found: list[Ref] = []
    for alias, counted in seen:
        for index in ("[0]", "[last]", "[1]") if counted else ("",):
            found += refs((("k", "string"), ("i", "int"), ("p", "double")), f"{alias}{index}.")
    chosen = draw.some(found, 1, 6)
    return selection(draw, chosen, aggregates=0.15, rates=rates, plain=0.6)


def pattern(draw: Draw, app: GeneratedApp, *, sequence: bool, inside: bool = False) -> str:
    """Return a query over a pattern or sequence."""
    app.kinds.add("sequence" if sequence else "pattern")
    text, seen = machine(draw, sequence=sequence)
    chosen = pattern_selection(draw, seen)
    return insert(draw, app, f"from {text} {chosen.text}", chosen.schema, inside=inside)
