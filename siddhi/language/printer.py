"""Print a syntax tree in a canonical form, so that `parse(print_app(app)) == app`."""

from __future__ import annotations

from collections.abc import Iterable

from siddhi.language import ast
from siddhi.language.ast import EventType
from siddhi.language.literals import identifier_text, is_plain_name, name_text, string_text
from siddhi.language.print_expressions import print_attribute, print_call, print_expression, print_time

_INDENT = "    "
_REPETITIONS = {(0, -1): "*", (1, -1): "+", (0, 1): "?"}


def print_app(app: ast.App) -> str:
    """Return the whole app, one statement after the other, each terminated by `;`."""
    head = [print_annotation(annotation) for annotation in app.annotations]
    statements = [print_definition(definition) for definition in app.definitions]
    statements += [print_element(element) for element in app.elements]
    text = "\n\n".join(f"{statement};" for statement in statements)
    return "\n".join([*head, *([""] if head and statements else []), text]).rstrip() + "\n"


def print_definition(definition: ast.Definition) -> str:
    """Return one definition with its annotations, without the `;`."""
    match definition:
        case ast.StreamDefinition():
            text = f"define stream {name_text(definition.id)} {_attributes(definition.attributes)}"
        case ast.TableDefinition():
            text = f"define table {name_text(definition.id)} {_attributes(definition.attributes)}"
        case ast.WindowDefinition():
            output = f" output {_events(definition.output)}" if definition.output is not None else ""
            call = print_call(definition.window)
            text = f"define window {name_text(definition.id)} {_attributes(definition.attributes)} {call}{output}"
        case ast.TriggerDefinition():
            text = f"define trigger {identifier_text(definition.id)} at {_trigger_time(definition)}"
        case ast.FunctionDefinition():
            head = f"define function {identifier_text(definition.id)}[{identifier_text(definition.language)}]"
            text = f"{head} return {definition.return_type.value} {{{definition.body}}}"
        case ast.AggregationDefinition():
            text = _aggregation(definition)
    return _annotated(definition.annotations, text)


def print_element(element: ast.ExecutionElement) -> str:
    """Return one query or partition with its annotations, without the `;`."""
    if isinstance(element, ast.Query):
        return _annotated(element.annotations, _query(element))
    keys = ", ".join(_partition_key(key) for key in element.keys)
    queries = "\n".join(_indented(f"{print_element(query)};") for query in element.queries)
    return _annotated(element.annotations, f"partition with ({keys})\nbegin\n{queries}\nend")


# ---- annotations and definitions ------------------------------------------------------------------------------------


def print_annotation(annotation: ast.Annotation) -> str:
    """Return one annotation; elements precede nested annotations."""
    namespace = f"{name_text(annotation.namespace)}:" if annotation.namespace is not None else ""
    parts = [_annotation_element(element) for element in annotation.elements]
    parts += [print_annotation(nested) for nested in annotation.annotations]
    arguments = f"({', '.join(parts)})" if parts else ""
    return f"@{namespace}{name_text(annotation.name)}{arguments}"


def _annotation_element(element: ast.AnnotationElement) -> str:
    if element.key is None:
        return string_text(element.value)
    plain = all(is_plain_name(part) for part in element.key.replace("-", ".").replace(":", ".").split("."))
    return f"{element.key if plain else string_text(element.key)}={string_text(element.value)}"


def _annotated(annotations: Iterable[ast.Annotation], text: str) -> str:
    return "\n".join([*(print_annotation(annotation) for annotation in annotations), text])


def _attributes(attributes: Iterable[ast.AttributeDefinition]) -> str:
    return f"({', '.join(f'{name_text(attribute.name)} {attribute.type.value}' for attribute in attributes)})"


def _trigger_time(trigger: ast.TriggerDefinition) -> str:
    if trigger.every is not None:
        return f"every {print_time(trigger.every)}"
    return string_text(trigger.cron if trigger.cron is not None else "start")


def _aggregation(definition: ast.AggregationDefinition) -> str:
    durations = ("..." if definition.range else ", ").join(definition.durations)
    by = f" by {print_attribute(definition.by)}" if definition.by is not None else ""
    lines = [
        f"define aggregation {identifier_text(definition.id)}",
        f"from {_source(definition.source)}",
        *_selection(definition.selection),
        f"aggregate{by} every {durations}",
    ]
    return f"\n{_INDENT}".join(lines)


# ---- inputs ---------------------------------------------------------------------------------------------------------


def _query(query: ast.Query) -> str:
    lines = [f"from {_input(query.input)}"]
    if query.selection is not None:
        lines += _selection(query.selection)
    if query.rate is not None:
        lines.append(_rate(query.rate))
    lines.append(_output(query.output))
    return "\n".join(lines)


def _input(source: ast.Input) -> str:
    match source:
        case ast.SingleInput():
            return _source(source)
        case ast.JoinInput():
            return _join(source)
        case ast.StateInput():
            separator = ", " if source.sequence else " -> "
            within = f"\n{_INDENT}within {print_time(source.within)}" if source.within is not None else ""
            text = _state(source.element, separator)
            lone = isinstance(source.element, ast.StreamElement) and source.element.bare
            return (f"({text})" if lone else text) + within
        case ast.AnonymousInput():
            return f"({_query(source.query)}){_handlers(source.handlers)}"


def _source(source: ast.SingleInput) -> str:
    prefix = "#" if source.inner else "!" if source.fault else ""
    return f"{prefix}{name_text(source.source)}{_handlers(source.handlers)}"


def _handlers(handlers: Iterable[ast.Handler]) -> str:
    parts: list[str] = []
    for handler in handlers:
        match handler:
            case ast.FilterHandler():
                parts.append(f"[{print_expression(handler.condition)}]")
            case ast.StreamFunction():
                parts.append(f"#{print_call(handler.call)}")
            case ast.WindowHandler():
                parts.append(f"#window.{print_call(handler.call)}")
    return "".join(parts)


def _join(join: ast.JoinInput) -> str:
    left = _side(join.left) + (" unidirectional" if join.unidirectional == "left" else "")
    right = _side(join.right) + (" unidirectional" if join.unidirectional == "right" else "")
    return f"{left}\n{_INDENT}{join.kind.value} {right}{_join_tail(join.on, join.within, join.per)}"


def _side(source: ast.SingleInput) -> str:
    return _source(source) + (f" as {name_text(source.alias)}" if source.alias is not None else "")


def _join_tail(on: ast.Expression | None, within: tuple[ast.Expression, ...], per: ast.Expression | None) -> str:
    parts: list[str] = []
    if on is not None:
        parts.append(f"on {print_expression(on)}")
    if within:
        parts.append(f"within {', '.join(print_expression(bound) for bound in within)}")
    if per is not None:
        parts.append(f"per {print_expression(per)}")
    return "".join(f"\n{_INDENT}{part}" for part in parts)


def _state(element: ast.StateElement, separator: str) -> str:
    match element:
        case ast.StreamElement():
            alias = f"{name_text(element.input.alias)}=" if element.input.alias is not None else ""
            return f"{alias}{_source(element.input)}{_count(element, separator)}"
        case ast.AbsentElement():
            waiting = f" for {print_time(element.waiting)}" if element.waiting is not None else ""
            return f"not {_source(element.input)}{waiting}"
        case ast.LogicalElement():
            return f"{_state(element.left, separator)} {element.operator} {_state(element.right, separator)}"
        case ast.EveryElement():
            within = f" within {print_time(element.within)}" if element.within is not None else ""
            held = _grouped(element.element, separator)
            held = f"({held})" if isinstance(element.element, ast.EveryElement) else held
            return f"every {held}{within}"
        case ast.NextElement():
            return _chain(element, separator)


def _chain(chain: ast.NextElement, separator: str) -> str:
    within = f" within {print_time(chain.within)}" if chain.within is not None else ""
    if len(chain.elements) == 1:
        return f"({_state(chain.elements[0], separator)}){within}"
    text = separator.join(_grouped(element, separator) for element in chain.elements)
    return f"{text}{within}"


def _grouped(element: ast.StateElement, separator: str) -> str:
    """Return the element as part of a chain or after `every`: chains in parentheses."""
    text = _state(element, separator)
    nested_chain = isinstance(element, ast.NextElement) and len(element.elements) > 1
    return f"({text})" if nested_chain else text


def _count(element: ast.StreamElement, separator: str) -> str:
    minimum, maximum = element.minimum, element.maximum
    if minimum is None or maximum is None:
        return ""
    if separator == ", " and (minimum, maximum) in _REPETITIONS:
        return _REPETITIONS[minimum, maximum]
    if minimum == maximum:
        return f"<{minimum}>"
    return f"<{minimum}:{maximum if maximum >= 0 else ''}>"


# ---- selection, rate and output -------------------------------------------------------------------------------------


def _selection(selection: ast.Selection) -> list[str]:
    lines = ["select *"]
    if selection.attributes is not None:
        lines = [f"select {', '.join(_output_attribute(attribute) for attribute in selection.attributes)}"]
    if selection.group_by:
        lines.append(f"group by {', '.join(print_attribute(attribute) for attribute in selection.group_by)}")
    if selection.having is not None:
        lines.append(f"having {print_expression(selection.having)}")
    if selection.order_by:
        keys = (f"{print_attribute(key.attribute)}{' desc' if key.descending else ''}" for key in selection.order_by)
        lines.append(f"order by {', '.join(keys)}")
    if selection.limit is not None:
        lines.append(f"limit {print_expression(selection.limit)}")
    if selection.offset is not None:
        lines.append(f"offset {print_expression(selection.offset)}")
    return lines


def _output_attribute(attribute: ast.OutputAttribute) -> str:
    name = f" as {name_text(attribute.name)}" if attribute.name is not None else ""
    return f"{print_expression(attribute.expression)}{name}"


def _rate(rate: ast.Rate) -> str:
    match rate:
        case ast.EventRate():
            return f"output {rate.kind} every {rate.events} events"
        case ast.TimeRate():
            return f"output {rate.kind} every {print_time(rate.time)}"
        case ast.SnapshotRate():
            return f"output snapshot every {print_time(rate.time)}"


def _output(output: ast.Output) -> str:
    match output:
        case ast.InsertInto():
            prefix = "#" if output.inner else "!" if output.fault else ""
            raw = "raw " if output.raw else ""
            kind = f"{output.events.value} " if output.events is not None else ""
            events = f"{kind}{raw}events " if kind or raw else ""
            return f"insert {events}into {prefix}{name_text(output.target)}"
        case ast.Delete():
            on = f"\n{_INDENT}on {print_expression(output.on)}" if output.on is not None else ""
            return f"delete {name_text(output.target)}{_for_events(output.events)}{on}"
        case ast.Update():
            return _update(output)
        case ast.Return():
            return f"return {_events(output.events)}" if output.events is not None else "return"


def _update(update: ast.Update) -> str:
    verb = "update or insert into" if update.insert else "update"
    lines = [f"{verb} {name_text(update.target)}{_for_events(update.events)}"]
    if update.assignments:
        parts = (f"{print_attribute(a.attribute)} = {print_expression(a.value)}" for a in update.assignments)
        lines.append(f"set {', '.join(parts)}")
    if update.on is not None:
        lines.append(f"on {print_expression(update.on)}")
    return f"\n{_INDENT}".join(lines)


def _for_events(events: EventType | None) -> str:
    return f" for {_events(events)}" if events is not None else ""


def _events(events: EventType) -> str:
    return f"{events.value} events"


def _partition_key(key: ast.ValuePartition | ast.RangePartition) -> str:
    if isinstance(key, ast.ValuePartition):
        return f"{print_expression(key.expression)} of {name_text(key.stream)}"
    ranges = " or ".join(f"{print_expression(condition)} as {string_text(label)}" for condition, label in key.ranges)
    return f"{ranges} of {name_text(key.stream)}"


def _indented(text: str) -> str:
    """Return `text` indented, except for lines inside a text in triple quotes."""
    lines = text.split("\n")
    inside = False
    moved: list[str] = []
    for line in lines:
        moved.append(line if inside or not line else f"{_INDENT}{line}")
        inside ^= line.count('"""') % 2 == 1
    return "\n".join(moved)
