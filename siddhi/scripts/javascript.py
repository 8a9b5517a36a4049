"""`define function f[javascript]`: JavaScript, where QuickJS is installed (`pip install 'cep-on-spark[javascript]'`).

A script is the body of a function of `data`, the list of its arguments, as in Siddhi's extension `script:javascript`.
It sees the language alone: no files, no network, no processes and no timers, and nothing of this process. A call may
take so much time and memory and no more.
"""

from __future__ import annotations

import re
from importlib.util import find_spec
from typing import Any

import msgspec

from siddhi.scripts.language import Script, ScriptError, ScriptLanguage

TIME_LIMIT_S = 1.0
"""The processor time of one call."""
MEMORY_LIMIT_MIB = 32
"""What one script may hold during a call."""
STACK_BYTES = 256 * 1024

_MAKE = r"""
(body) => {
  const script = new Function("data", body);
  if (script.toString() !== `function anonymous(data\n) {\n${body}\n}`) return null;
  return (...data) => {
    const answer = script(data);
    if (typeof answer === "bigint") throw new TypeError("it gave a BigInt; Number(…) makes a number of it");
    if (typeof answer === "string" && answer.includes("\0")) throw new TypeError("it gave a text with the character 0");
    return answer;
  };
}
"""
"""Makes a function of a script's body, null of one that is none. QuickJS reads it between the first and the last line
of a function, so that it could end this and begin another one: the text of what was made tells."""

_LINES_BEFORE_BODY = 2
_PLACE = re.compile(r"^\s+at .*<input>:(\d+):\d+\)?$", re.MULTILINE)


class JavaScriptError(Exception):
    """What a script threw, or the limit that it met."""


def is_installed() -> bool:
    """True where plans can have functions in JavaScript."""
    return find_spec("quickjs") is not None


def compile_javascript(body: str) -> Script:
    """The function whose body is `body`, with `data` as its only parameter; `ScriptError` when it cannot be read."""
    return _Script(body)


class _Script:
    """Takes another engine after a call that failed, which may have left the memory of its own full."""

    def __init__(self, body: str) -> None:
        self._body = body
        self._function = _Function(body)

    def __call__(self, arguments: list[object]) -> object:
        try:
            return self._function.call(arguments)
        except Exception:
            self._function = _Function(self._body)
            raise


class _Function:
    """An engine that has read a script."""

    def __init__(self, body: str) -> None:
        import quickjs  # noqa: PLC0415 - few plans need it, and it begins a thread

        self._failure: type[Exception] = quickjs.JSException
        self._object: type[Any] = quickjs.Object
        self._context = quickjs.Context()
        self._context.set_time_limit(TIME_LIMIT_S)
        self._context.set_memory_limit(MEMORY_LIMIT_MIB * 2**20)
        self._context.set_max_stack_size(STACK_BYTES)
        try:
            self._function = self._context.eval(_MAKE)(body)
        except self._failure as error:
            raise _unreadable(str(error), body) from error
        if self._function is None:
            raise ScriptError("its braces do not match", 1)

    def call(self, arguments: list[object]) -> object:
        """What the script gives back for these arguments; JavaScriptError when it fails, TypeError when that is nothing
        that a plan has."""
        try:
            answer = self._function(*[self._given(argument) for argument in arguments])
            text = answer.json() if isinstance(answer, self._object) else None
        except self._failure as error:
            raise JavaScriptError(_reason(str(error))) from error
        if not isinstance(answer, self._object):
            return answer
        if text is None:
            raise TypeError("it gave a function or a symbol")
        return msgspec.json.decode(text)

    def _given(self, argument: object) -> object:
        if isinstance(argument, bool | int | float | str | None):
            return argument
        return self._context.parse_json(msgspec.json.encode(argument).decode())


def _unreadable(text: str, body: str) -> ScriptError:
    place = _PLACE.search(text)
    line = int(place[1]) - _LINES_BEFORE_BODY if place else 1
    return ScriptError(_reason(text).removeprefix("SyntaxError: "), min(max(line, 1), body.count("\n") + 1))


def _reason(text: str) -> str:
    """What QuickJS says, without the places in its own text."""
    reason = text.split("\n", 1)[0]
    if reason == "InternalError: interrupted":
        return f"it took more than {TIME_LIMIT_S:g} s"
    if reason in ("InternalError: out of memory", "null"):  # without memory there is no error to throw
        return f"it needs more than {MEMORY_LIMIT_MIB} MiB"
    return reason


JAVASCRIPT = ScriptLanguage("javascript", compile_javascript)
