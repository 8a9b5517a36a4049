"""`define function f[javascript]`: JavaScript, where QuickJS is installed (`pip install 'cep-on-spark[javascript]'`).

A script is the body of a function of `data`, the list of its arguments, as in Siddhi's extension `script:javascript`.
It sees the language alone: no files, no network, no processes and no timers, and nothing of this process. Memory, stack
and time are bounded, the time also in functions of the engine that iterate over long lists or texts. A script can evade
the time limit on purpose (QuickJS drops it where it keeps an exception for later, as promises do, and does not look at
the time within operators and syntax, as in `{...o}` of many keys); a process of its own (`siddhi.scripts.process`) ends
such a script.

Nothing of a script runs outside of a call, nor while it is checked: what it returns or throws becomes a text within the
call.
"""

from __future__ import annotations

import re
from importlib.util import find_spec
from typing import Any

import msgspec

from siddhi.scripts.language import Script, ScriptError, ScriptLanguage

TIME_LIMIT_S = 0.5
"""The limit of processor time of the whole process during one call. The engine checks it only occasionally, so a call
may take twice as long. The stage's loop waits meanwhile: this must be far below the lease of a task."""
MEMORY_LIMIT_MIB = 32
"""Memory limit of one script."""
STACK_BYTES = 256 * 1024
LONGEST_BODY = 65_536
"""Maximum number of characters: parsing a longer one could block the process that checks it."""
LARGEST_RESULT = 1_048_576
"""Maximum number of characters of an object as JSON."""
MOST_STEPS = 20_000_000
"""Limit on one call of a built-in function: compare this many characters, or visit a tenth as many items."""
UNSEEN_STEPS = 40_000
"""This many count as one step of the script; the engine checks the time after each 10,000 steps."""

_MAKE = (
    """
(body) => {
  const stringify = JSON.stringify, apply = Reflect.apply, isArray = Array.isArray, ownKeys = Reflect.ownKeys;
  const put = (place, name, value) =>
    Object.defineProperty(place, name, { value, writable: true, enumerable: false, configurable: true });
  const count = (steps) => { for (let left = steps; left > UNSEEN_STEPS; left -= UNSEEN_STEPS); };
  // The engine looks at the time between the steps of a script, not within its own functions: these get no more than
  // they can do in a moment, and those that go through lists in lists make a step of each item.
  const guard = (place, name, cost) => {
    const native = place[name];
    if (typeof native !== "function") return;
    const { guarded } = {
      guarded(...given) {
        const steps = cost(this, given);
        if (steps > MOST_STEPS) throw new RangeError(`${name} would take too long: its data is too large`);
        count(steps);  // these the engine does see
        return apply(native, this, given);
      },
    };
    put(place, name, guarded);
  };
  const items = (it) => 10 * (it?.length ?? 0);
  for (const name of Object.getOwnPropertyNames(Array.prototype))
    if (!["constructor", "push", "pop", "at", "length"].includes(name)) guard(Array.prototype, name, items);
  guard(Array, "from", (_, [source]) => items(source));
  const { flat } = {
    flat(depth = 1) {
      const found = [];
      const add = (list, left) =>
        list.forEach((one) => { if (left >= 1 && isArray(one)) add(one, left - 1); else found.push(one); });
      add(this, depth);
      return found;
    },
  };
  put(Array.prototype, "flat", flat);
  // What these cost is known once they have run: the memory of a script bounds each single call.
  const charge = (place, name, cost) => {
    const native = place[name];
    if (typeof native !== "function") return;
    const { charged } = {
      charged(...given) {
        const found = apply(native, this, given);
        count(cost(found, given, this));
        return found;
      },
    };
    put(place, name, charged);
  };
  const isObject = (it) => (typeof it === "object" && it !== null) || typeof it === "function";
  const keysOf = (it) => (isArray(it) || typeof it === "string" ? it.length : isObject(it) ? ownKeys(it).length : 0);
  for (const name of ["keys", "values", "entries", "getOwnPropertyNames", "getOwnPropertySymbols"])
    charge(Object, name, (found, [it]) => 100 * (name === "getOwnPropertySymbols" ? keysOf(it) : found.length));
  charge(Reflect, "ownKeys", (found) => 100 * found.length);
  for (const name of ["getOwnPropertyDescriptors", "fromEntries", "defineProperties"])
    charge(Object, name, (found) => 1000 * keysOf(found));
  for (const name of ["freeze", "seal", "isFrozen", "isSealed"])
    charge(Object, name, (_, [it]) => 100 * keysOf(it));
  charge(Object, "assign", (_, given) => {
    let steps = 0;
    for (let place = 0; place < given.length; place++) steps += 200 * keysOf(given[place]);
    return steps;
  });
  charge(JSON, "parse", (_, [text]) => (typeof text === "string" ? 50 * text.length : 0));
  for (const name of ["toString", "toLocaleString"])
    charge(BigInt.prototype, name, (found) => 1000 * found.length);
  const shared = Object.getPrototypeOf(Int8Array.prototype);
  for (const name of ["fill", "set", "sort", "reverse", "slice", "join", "indexOf", "lastIndexOf", "includes",
                      "toReversed", "toSorted", "with", "copyWithin", "toString", "toLocaleString"])
    charge(shared, name, (_, __, it) => items(it));
  for (const name of ["toUpperCase", "toLowerCase", "toLocaleUpperCase", "toLocaleLowerCase", "normalize",
                      "localeCompare", "isWellFormed", "toWellFormed"])
    charge(String.prototype, name, (_, __, it) => items(it));
  for (const name of ["repeat", "padStart", "padEnd", "concat", "slice", "substring", "substr", "trim"])
    charge(String.prototype, name, items);
  const search = (it, [sought]) => (it?.length ?? 0) * (typeof sought === "string" ? sought.length : 0);
  for (const name of ["indexOf", "lastIndexOf", "includes", "split", "replace", "replaceAll"])
    guard(String.prototype, name, search);
  put(JSON, "stringify", (value, replacer, space) => {
    if (typeof replacer === "function") return stringify(value, replacer, space);
    const text = stringify(value, (_, inner) => inner, space);
    return replacer === undefined || replacer === null ? text : stringify(value, replacer, space);
  });
  delete Error.prepareStackTrace;
  delete Error.stackTraceLimit;
  for (const kind of [Error, InternalError]) {  // else a script could change how the end of its own call is reported
    Object.defineProperty(kind.prototype, Symbol.toPrimitive, { value: undefined });
    Object.freeze(kind.prototype);
    Object.freeze(kind);
  }
  const told = (error) => {
    if (error === null || (error instanceof InternalError && error.message === "out of memory")) return "memory";
    if (!(error instanceof Error)) return String(error).slice(0, 300).toWellFormed() || "it threw an empty text";
    const line = (/<input>:(\\d+)/.exec(error.stack)?.[1] ?? 0) - 2;
    const place = line > 0 && line <= body.split("\\n").length ? `, line ${line}` : "";
    return `${error.name}: ${error.message}`.slice(0, 300).toWellFormed() + place;
  };
  const written = (answer) => {
    const kind = Object.prototype.toString.call(answer).slice(8, -1);
    if (!["Object", "Array", "Date"].includes(kind)) return `!it returned a ${kind}`;
    const text = stringify(answer, (_, inner) => inner) ?? "null";
    return text.length > LARGEST ? "!it returned an object of more than LARGEST characters" : `{${text}`;
  };
  const tagged = (answer) => {
    switch (typeof answer) {
      case "string":
        if (answer.isWellFormed() && !answer.includes("\\0")) return `=${answer}`;
        return "!it returned a text with half a character or the character 0";
      case "object":
        return answer === null ? null : written(answer);
      case "bigint":
        return "!it returned a BigInt; Number(…) makes a number of it";
      case "function":
      case "symbol":
        return `!it returned a ${typeof answer}`;
      default:
        return answer;
    }
  };
  const bounded = (call) => {
    try {
      return call();
    } catch (error) {
      try {
        return `!${told(error)}`;
      } catch {
        return "!it threw what has no text";
      }
    }
  };
  let script;
  const made = bounded(() => {
    script = new Function("data", body);
    return script.toString() === `function anonymous(data\\n) {\\n${body}\\n}`;
  });
  return made === true ? (...data) => bounded(() => tagged(script(data))) : null;
}
""".replace("LARGEST", str(LARGEST_RESULT))
    .replace("MOST_STEPS", str(MOST_STEPS))
    .replace("UNSEEN_STEPS", str(UNSEEN_STEPS))
)
"""Makes a function of a script's body that gives numbers, bools and undefined as they are, and else a text: `=` and a
text, `{` and JSON, `!` and what is wrong; or null of a body that ends its function and begins another one, as QuickJS
reads it between the first and the last line of a function."""

_READ = ("throw 0;(function(data){{\n{}\n}})", "throw 0;function script(data){{\n{}\n}}")
"""Texts that QuickJS parses completely, but runs only up to the first word."""

_PLACE = re.compile(r"<input>:(\d+)")
_UNREADABLE = re.compile(r"[\0\ud800-\udfff]")
_INT32 = 2**31


class JavaScriptError(Exception):
    """The exception of a script, the limit that it exceeded, or the reason why its result is invalid."""


def is_installed() -> bool:
    """Return whether plans can have functions in JavaScript."""
    return find_spec("quickjs") is not None


def compile_javascript(body: str) -> Script:
    """Return the function with the body `body` and `data` as its only parameter.

    Raise `ScriptError` when it cannot be parsed.
    """
    if len(body) > LONGEST_BODY:
        raise ScriptError(f"it has more than {LONGEST_BODY} characters", 1)
    if (strange := _UNREADABLE.search(body)) is not None:
        line = body.count("\n", 0, strange.start()) + 1
        raise ScriptError("it holds the character 0 or half a character", line)
    alone, beside = (_fault_of(text.format(body)) for text in _READ)
    if alone is not None:
        place = _PLACE.search(alone)
        line = int(place[1]) - 1 if place else 1
        reason = alone.split("\n", 1)[0].removeprefix("SyntaxError: ")
        raise ScriptError(reason, min(max(line, 1), body.count("\n") + 1))
    if beside is not None:
        raise ScriptError("its braces do not match", 1)
    return _JavaScriptSource(body)


class _JavaScriptSource:
    """Creates a new engine after a call that exceeded a limit, which may have left the engine's memory full."""

    def __init__(self, body: str) -> None:
        self._body = body
        self._function: _JavaScriptFunction | None = None

    def __call__(self, arguments: list[object]) -> object:
        if self._function is None:
            self._function = _JavaScriptFunction(self._body)
        function, self._function = self._function, None
        answer = function.call(arguments)
        if answer == "!memory":
            raise JavaScriptError(f"it needs more than {MEMORY_LIMIT_MIB} MiB, or threw null")
        self._function = function
        if not isinstance(answer, str):
            return answer
        if answer[0] == "!":
            raise JavaScriptError(answer[1:])
        return answer[1:] if answer[0] == "=" else _object_of(answer[1:])


class _JavaScriptFunction:
    """An engine that has parsed a script."""

    def __init__(self, body: str) -> None:
        self._context, self._failure = _engine()
        try:
            self._function = self._context.eval(_MAKE)(body)
        except self._failure as error:
            raise JavaScriptError(_reason(error)) from error
        if self._function is None:
            raise JavaScriptError("its braces do not match")

    def call(self, arguments: list[object]) -> object:
        """Return the result of the function for these arguments. Raise JavaScriptError when a limit is exceeded."""
        try:
            return self._function(*[self._given(argument) for argument in arguments])
        except self._failure as error:
            raise JavaScriptError(_reason(error)) from error

    def _given(self, argument: object) -> object:
        if isinstance(argument, bool | float | str | None):
            return argument
        if isinstance(argument, int):
            return argument if -_INT32 <= argument < _INT32 else float(argument)
        return self._context.parse_json(msgspec.json.encode(argument).decode())


def _object_of(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise JavaScriptError("it returned an object with half a character in it") from error


def _engine() -> tuple[Any, type[Exception]]:
    """Return a new engine with limits, and its exception type."""
    import quickjs  # noqa: PLC0415 - few plans need it, and it begins a thread

    context = quickjs.Context()
    context.set_time_limit(TIME_LIMIT_S)
    context.set_memory_limit(MEMORY_LIMIT_MIB * 2**20)
    context.set_max_stack_size(STACK_BYTES)
    return context, quickjs.JSException


def _fault_of(text: str) -> str | None:
    """Return the error of QuickJS for a text that it cannot parse."""
    context, failure = _engine()
    try:
        context.eval(text)
    except failure as error:
        said = str(error)
        return None if said.startswith("0\n") else said
    return None


def _reason(error: Exception) -> str:
    text = str(error).split("\n", 1)[0]
    if text == "InternalError: interrupted":
        return f"it took more than {TIME_LIMIT_S:g} s"
    return f"it needs more than {MEMORY_LIMIT_MIB} MiB" if text in ("InternalError: out of memory", "null") else text


JAVASCRIPT = ScriptLanguage("javascript", compile_javascript)
