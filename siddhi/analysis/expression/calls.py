"""Check calls against declarations: overload, the declaration's own rules, result type."""

from __future__ import annotations

from siddhi.analysis.expression.script_languages import usable_language
from siddhi.analysis.model import (
    Aggregate,
    AnalysedFunction,
    AttributeValue,
    Call,
    ConstantValue,
    EventReference,
    TypedExpression,
)
from siddhi.analysis.problems import Problems
from siddhi.errors import did_you_mean
from siddhi.language import ast
from siddhi.registry import Argument, Arguments, CallError, Declaration, Kind, Overload, Parameter, Registry

_IN_OTHER_WORDS = {"isnull": "write `x is null`"}
"""Functions of early versions of Siddhi 3, and their replacements."""


class CallChecker:
    """Checks calls of functions, aggregators, windows and stream functions of one app."""

    def __init__(
        self, registry: Registry, functions: dict[str, AnalysedFunction | None], problems: Problems, *, dialect_3x: bool
    ) -> None:
        """Create the check of calls.

        Args:
            registry: The functions, windows and aggregators that exist.
            functions: The functions that the app defines; None for a function with errors.
            problems: Receives the problems found.
            dialect_3x: Whether to apply the rules of Siddhi 3.
        """
        self._registry = registry
        self._functions = functions
        self._problems = problems
        self._dialect_3x = dialect_3x

    def check(
        self, call: ast.FunctionCall, arguments: tuple[TypedExpression, ...] | None, *, aggregates: bool, place: str
    ) -> Call | Aggregate | None:
        """Return the typed call of a function or an aggregator.

        If there is none, record the problem and return None. `arguments` is None if they have problems; the name is
        checked anyway.
        """
        if not call.namespace and call.name in self._functions:
            script = self._functions[call.name]
            if arguments is None or script is None:
                return None
            runner = self._registry.script_runner
            return Call("", call.name, arguments, script.syntax.return_type, script, syntax=call, runner=runner)
        declaration = self._find(Kind.FUNCTION, call) or self._find(Kind.AGGREGATOR, call)
        if declaration is None:
            self._unknown(call, (Kind.FUNCTION, Kind.AGGREGATOR))
            return None
        if declaration.kind is Kind.AGGREGATOR and not aggregates:
            message = f"'{call.name}' is an aggregate, which is not allowed in {place}"
            self._problems.add("aggregate-not-here", message, call.span)
            return None
        if arguments is None or not self.fits(declaration, call, arguments):
            return None
        language = declaration.script_language
        if language and usable_language(self._registry, language, call.span, self._problems) is None:
            return None
        result = declaration.result
        try:
            if result is None:
                raise TypeError(f"{declaration.kind.value} '{declaration.name}' is declared without a result type")
            result_type = result(_facts(arguments))
        except CallError as error:
            self._refuse(call, error)
            return None
        if declaration.kind is Kind.AGGREGATOR:
            return Aggregate(declaration.namespace, declaration.name, arguments, result_type, syntax=call)
        runner = self._registry.script_runner if language else None
        return Call(declaration.namespace, declaration.name, arguments, result_type, syntax=call, runner=runner)

    def find(self, kind: Kind, call: ast.FunctionCall) -> Declaration | None:
        """Return the declaration of a window or stream function.

        Report a problem and return None if there is none.
        """
        declaration = self._find(kind, call)
        if declaration is None:
            self._unknown(call, (kind,))
        return declaration

    def fits(self, declaration: Declaration, call: ast.FunctionCall, arguments: tuple[TypedExpression, ...]) -> bool:
        """Return whether the arguments fit an overload and the declaration's own rules.

        Report a problem when they do not.
        """
        facts = _facts(arguments)
        overloads = declaration.overloads_of(dialect_3x=self._dialect_3x)
        if not any(_fits(overload, facts) for overload in overloads):
            given = ", ".join(argument.type.value for argument in arguments)
            almost = next((o for o in overloads if _fits(o, facts, types_only=True)), None)
            if almost is not None:
                position, parameter = next(
                    (p, almost.parameter_at(p))
                    for p, fact in enumerate(facts)
                    if not _of_right_form(almost.parameter_at(p), fact)
                )
                need = "a constant" if parameter.constant else "a plain attribute"
                message = f"argument {position + 1} of '{call.name}' ({parameter.name}) must be {need}"
            else:
                message = f"'{call.name}' does not take ({given})"
            hint = "it takes " + " or ".join(declaration.signatures(dialect_3x=self._dialect_3x))
            self._problems.add("wrong-arguments", message, call.span, hint)
            return False
        try:
            if declaration.check is not None:
                declaration.check(facts)
        except CallError as error:
            self._refuse(call, error)
            return False
        return True

    def facts(self, arguments: tuple[TypedExpression, ...]) -> Arguments:
        """Return the facts about the arguments that rules may use."""
        return _facts(arguments)

    def _find(self, kind: Kind, call: ast.FunctionCall) -> Declaration | None:
        return self._registry.find(kind, call.namespace, call.name, dialect_3x=self._dialect_3x)

    def _refuse(self, call: ast.FunctionCall, error: CallError) -> None:
        span = call.span
        if error.position is not None and error.position < len(call.arguments):
            span = call.arguments[error.position].span
        self._problems.add("wrong-arguments", f"'{call.name}': {error}", span, error.hint)

    def _unknown(self, call: ast.FunctionCall, kinds: tuple[Kind, ...]) -> None:
        known = [declaration.full_name for declaration in self._registry if declaration.kind in kinds]
        if Kind.FUNCTION in kinds and not call.namespace:
            known += self._functions
        written = f"{call.namespace}:{call.name}" if call.namespace else call.name
        extensions = {declaration.namespace for declaration in self._registry} - {""}
        hint = _IN_OTHER_WORDS.get(written.casefold()) or _meant(call, written, known, extensions)
        if kinds == (Kind.STREAM_FUNCTION,) and call.name in self._registry.names(Kind.WINDOW, call.namespace):
            hint = f"windows are written #window.{written}(…)"
        older = self._registry.find(kinds[0], call.namespace, call.name, dialect_3x=True)
        if older is not None:
            hint = f"it is called {older.full_name}; the other name belongs to execution plans (@Plan:name)"
        code = f"unknown-{kinds[0].value.replace(' ', '-')}"
        self._problems.add(code, f"there is no {kinds[0].value} '{written}'", call.span, hint)


def _meant(call: ast.FunctionCall, written: str, known: list[str], extensions: set[str]) -> str | None:
    """Return the most similar of the `known` names, None if there is none.

    With a namespace only names of that extension are candidates. For an unknown namespace only an extension with a
    function of that name is suggested, as the namespace may be misspelt.
    """
    if not call.namespace:
        return did_you_mean(written, known)
    if call.namespace in extensions:
        own = [name for name in known if name.startswith(f"{call.namespace}:")]
        return did_you_mean(written, own) or (None if own else f"the extension '{call.namespace}' has none")
    return did_you_mean(written, (name for name in known if name.partition(":")[2] == call.name)) or (
        f"there is no extension '{call.namespace}'; there are {', '.join(sorted(extensions))}" if extensions else None
    )


def _facts(arguments: tuple[TypedExpression, ...]) -> Arguments:
    return tuple(
        Argument(
            argument.type,
            constant=isinstance(argument, ConstantValue),
            value=argument.value if isinstance(argument, ConstantValue) else None,
            attribute=isinstance(argument, AttributeValue),
            event=isinstance(argument, EventReference),
        )
        for argument in arguments
    )


def _fits(overload: Overload, arguments: Arguments, *, types_only: bool = False) -> bool:
    if not overload.takes(len(arguments)):
        return False
    return all(
        argument.type in parameter.types and (types_only or _of_right_form(parameter, argument))
        for argument, parameter in ((a, overload.parameter_at(i)) for i, a in enumerate(arguments))
    )


def _of_right_form(parameter: Parameter, argument: Argument) -> bool:
    return (argument.constant or not parameter.constant) and (argument.attribute or not parameter.attribute)
