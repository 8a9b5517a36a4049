"""Sink `log`: an event is one line, whatever it holds."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import zmq
from worker_world import alerts, sink_context, until

from cep_common.protocol.registry import Connector
from cep_worker.connector_runtime.sink_types import make_sink
from cep_worker.outflows.receipts import DeliveryReceipt
from cep_worker.runtime.event_loop import EventLoop


@pytest.mark.parametrize(("mapper", "mapped"), [("text", {"payload": "{{carrier}}"}), ("json", {}), ("xml", {})])
def test_no_event_makes_a_line_of_its_own(
    caplog: pytest.LogCaptureFixture, mapper: str, mapped: dict[str, str]
) -> None:
    event_loop, done = EventLoop(), []
    context: zmq.Context[Any] = zmq.Context()
    connector = Connector("Alerts", "log", {"prefix": "a\nb"}, mapper, mapped if mapper == "text" else {})
    sink = make_sink(sink_context(connector, event_loop, context))
    with caplog.at_level(logging.INFO):
        forged = "x\n2026-01-01 00:00:00,000 ERROR root it burns\r\x1b[2K\u2028"
        sink.offer(alerts((1, forged, 1)), None, DeliveryReceipt(1, lambda: done.append(1)))

        class Pumped:
            def pump(self) -> None:
                event_loop.turn(5, lambda: 0)

        until(lambda: done, Pumped())
    sink.close()
    context.term()
    (text,) = [one.getMessage() for one in caplog.records if "it burns" in one.getMessage()]
    assert len(text.splitlines()) == 1
    assert "\x1b" not in text
