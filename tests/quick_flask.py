"""Flask applications made quickly: a process of tests makes hundreds, all with the same addresses and pages, and nearly
all of the time went into compiling these again for each."""

from __future__ import annotations

from typing import Any, ClassVar

from flask import Flask
from jinja2 import BytecodeCache
from jinja2.bccache import Bucket
from werkzeug.routing import Rule


class RememberedRule(Rule):
    """A rule that takes over what one of the same address was compiled to."""

    _remembered: ClassVar[dict[tuple[Any, ...], dict[str, Any]]] = {}

    def compile(self) -> None:
        converters = frozenset(self.map.converters.items())
        where = (self.subdomain, self.host, self.map.host_matching)
        key = (self.rule, self.merge_slashes, repr(self.defaults), converters, where)
        if key in self._remembered:
            vars(self).update(self._remembered[key], arguments=set(self._remembered[key]["arguments"]))
            return
        before = dict(vars(self))
        super().compile()
        made = {name: value for name, value in vars(self).items() if before.get(name) is not value}
        self._remembered[key] = {**made, "arguments": self.arguments}


class RememberedPages(BytecodeCache):
    """What templates were compiled to."""

    def __init__(self) -> None:
        self._made: dict[str, bytes] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        if bucket.key in self._made:
            bucket.bytecode_from_string(self._made[bucket.key])

    def dump_bytecode(self, bucket: Bucket) -> None:
        self._made[bucket.key] = bucket.bytecode_to_string()


def make_quickly() -> None:
    """All applications that are made from now on in this process are made quickly."""
    Flask.url_rule_class = RememberedRule
    Flask.jinja_options = {"bytecode_cache": RememberedPages()}
