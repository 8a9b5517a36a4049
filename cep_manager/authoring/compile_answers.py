"""The requests that the process that compiles plans handles."""

from __future__ import annotations

from cep_manager.authoring.compile_messages import (
    Checked,
    CompileAnswer,
    CompileRequest,
    CompileResult,
    Invalid,
    Previewed,
    Validated,
)
from cep_manager.authoring.compiler import compile_plan, plan_problems, validate_plan
from cep_manager.authoring.preview import preview_plan
from cep_manager.errors import PlanInvalidError
from siddhi.analysis.analyser import analyse
from siddhi.analysis.catalogue import builtin_registry
from siddhi.errors import SiddhiError
from siddhi.language.bounds import check_words
from siddhi.language.parser import parse
from siddhi.scripts.language import ScriptPolicy


def answer_of(request: CompileRequest) -> CompileAnswer:
    """Answer one compile request."""
    languages = frozenset(request.languages) if request.languages is not None else None
    scripts = ScriptPolicy(languages, request.setting)
    try:
        if request.wanted == "validated":
            return Validated(validate_plan(request.text, scripts, request.reaches, request.most_words))
        if request.wanted == "previewed":
            return Previewed(preview_plan(request.tenant, request.text, scripts, request.most_words))
        if request.wanted == "compiled":
            return CompileResult(compile_plan(request.text, scripts, request.reaches, request.most_words))
        check_words(request.text, request.most_words)
        analyse(parse(request.text), builtin_registry(scripts))
    except PlanInvalidError as error:
        return Invalid(error.problems)
    except SiddhiError as error:
        return Invalid(plan_problems(error.problems, request.text))
    return Checked()
