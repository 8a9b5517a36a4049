"""Check brackets in patterns and sequences by Siddhi's grammar.

An element is described by the rules of that grammar that it matches (`Form`), and a chain by the rules that its
elements match in sequence. Chains with a `not … for` of their own are of two kinds, which brackets keep apart:

    left   (before* (not after+ | left) not*)+         (not A for 1 sec -> B)
    right  (not* (before+ not | right) after*)+        (A -> not B for 1 sec)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

MISPLACED_BRACKETS = "misplaced-brackets"

_Moves = Mapping[tuple[str, str], str]

_LEFT: _Moves = {
    ("start", "plain"): "start",
    ("start", "silence"): "not",
    ("start", "left"): "end",
    ("not", "plain"): "after",
    ("after", "plain"): "after start",
    ("after", "silence"): "end not",
    ("after", "left"): "end",
    ("end", "plain"): "start",
    ("end", "silence"): "end not",
    ("end", "left"): "end",
}
_RIGHT: _Moves = {
    ("start", "plain"): "before",
    ("start", "silence"): "start",
    ("start", "right"): "end",
    ("before", "plain"): "before",
    ("before", "silence"): "end",
    ("end", "plain"): "end before",
    ("end", "silence"): "start",
    ("end", "right"): "end",
}
_COMPLETE = frozenset({"after", "end"})


@dataclass(frozen=True, slots=True)
class Form:
    """The rules that an element matches.

    `source`: an event, a counted one or a pair of them. `plain`: a chain of these; `repeated`: one in which `every` may
    occur as well. `silence`: a `not … for`. `left` and `right`: a chain with silences (see above). `silent`: it may be
    a whole query with a silence. `paired`: a pair with a `not`, which brackets do not change. `grouped`: brackets are
    around it. `bracketed`: they are around it or somewhere in it.
    """

    source: bool = False
    plain: bool = False
    repeated: bool = False
    silence: bool = False
    left: bool = False
    right: bool = False
    silent: bool = False
    paired: bool = False
    grouped: bool = False
    bracketed: bool = False


EVENT = Form(source=True, plain=True, repeated=True)
PAIR_WITH_SILENCE = Form(source=True, plain=True, repeated=True, paired=True)
SILENCE = Form(silence=True, silent=True)


def in_brackets(inner: Form) -> Form:
    """Return the form of `(inner)`."""
    return replace(inner, source=inner.paired, silence=False, grouped=True, bracketed=True)


def every(inner: Form) -> Form:
    """Return the form of `every inner`."""
    return replace(inner, source=False, plain=False, repeated=inner.plain, paired=False, grouped=False)


def chain(elements: Sequence[Form], *, sequence: bool) -> Form:
    """Return the form of consecutive `elements`, with `->` or, in a sequence, with `,`."""
    words = [_words(element, sequence=sequence) for element in elements]
    left, right = _ends(words, _LEFT)[-1], _ends(words, _RIGHT)[-1]
    return Form(
        plain=all(element.plain for element in elements),
        repeated=all(element.repeated for element in elements),
        left=left,
        right=right,
        silent=left or right,
        bracketed=any(element.bracketed for element in elements),
    )


def is_pattern(whole: Form) -> bool:
    """Return whether Siddhi parses `whole` as a pattern."""
    return whole.repeated or whole.silent


def is_sequence(first: Form, rest: Sequence[Form]) -> bool:
    """Return whether Siddhi parses `first` (without the leading `every`) and `rest` as a sequence."""
    if not rest:
        return False
    if first.source and (all(element.plain for element in rest) or _is_silent(rest)):
        return True
    plain_from = len(rest)
    while plain_from > 0 and rest[plain_from - 1].plain:
        plain_from -= 1
    words = [_words(element, sequence=True) for element in (first, *rest)]
    ends = [left or right for left, right in zip(_ends(words, _LEFT), _ends(words, _RIGHT), strict=True)]
    ends[0] = first.silent
    return any(ends[plain_from:-1])


def _is_silent(elements: Sequence[Form]) -> bool:
    return (elements[0] if len(elements) == 1 else chain(elements, sequence=True)).silent


def _words(element: Form, *, sequence: bool) -> tuple[str, ...]:
    """Return the roles that `element` may have in a chain."""
    fits = {
        "plain": element.plain if sequence else element.repeated,
        "silence": element.silence,
        "left": element.left,
        "right": element.right,
    }
    return tuple(word for word, fit in fits.items() if fit)


def _ends(words: Sequence[tuple[str, ...]], moves: _Moves) -> list[bool]:
    """Return for each element whether the chain may end with it."""
    states = {"start"}
    ends = []
    for options in words:
        reached = [moves.get((state, word), "") for state in states for word in options]
        states = {state for after in reached for state in after.split()}
        ends.append(not states.isdisjoint(_COMPLETE))
    return ends
