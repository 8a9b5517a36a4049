"""Brokers that the client library imitates in this process, and that answer with errors on demand."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

OFFSET_FETCH, FIND_COORDINATOR, INIT_PRODUCER_ID, END_TXN = 9, 10, 22, 26
COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, GROUP_AUTHORIZATION_FAILED = 15, 16, 30
_PRODUCER, _TEXT = 0, 512


class MockBrokers:
    """Three brokers with the topic `events`."""

    def __init__(self, library: Any, cluster: int) -> None:
        self._library, self._cluster = library, cluster
        self.servers: str = library.rd_kafka_mock_cluster_bootstraps(cluster).decode()

    def fail(self, request: int, error: int, times: int = 1) -> None:
        """Answer the next requests of this kind with the error."""
        errors = (ctypes.c_int * times)(*[error] * times)
        self._library.rd_kafka_mock_push_request_errors_array(self._cluster, request, times, errors)

    def coordinate(self, kind: str, name: str, broker: int) -> None:
        """Let a broker coordinate a `group` or `transaction`."""
        error = self._library.rd_kafka_mock_coordinator_set(self._cluster, kind.encode(), name.encode(), broker)
        assert not error, error

    def stop(self, broker: int) -> None:
        """Close the broker's connections and take no more."""
        error = self._library.rd_kafka_mock_broker_set_down(self._cluster, broker)
        assert not error, error


@contextmanager
def mock_brokers() -> Iterator[MockBrokers]:
    """They run. Skips the test where the library cannot be had."""
    package = pytest.importorskip("confluent_kafka", reason="pip install 'cep-on-spark[kafka]'")
    found = sorted(Path(package.__file__).parents[1].glob("confluent_kafka.libs/librdkafka*"))
    if not found:
        pytest.skip("confluent-kafka was not installed as a wheel with librdkafka")
    library = _declared(ctypes.CDLL(str(found[0])))
    settings = library.rd_kafka_conf_new()
    text = ctypes.create_string_buffer(_TEXT)
    library.rd_kafka_conf_set(settings, b"log_level", b"0", text, _TEXT)
    client = library.rd_kafka_new(_PRODUCER, settings, text, _TEXT)
    assert client, text.value
    cluster = library.rd_kafka_mock_cluster_new(client, 3)
    try:
        library.rd_kafka_mock_topic_create(cluster, b"events", 1, 1)
        yield MockBrokers(library, cluster)
    finally:
        library.rd_kafka_mock_cluster_destroy(cluster)
        library.rd_kafka_destroy(client)


def _declared(library: Any) -> Any:
    pointer, text, number, size = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_size_t
    for name, answer, arguments in (
        ("rd_kafka_conf_new", pointer, ()),
        ("rd_kafka_conf_set", number, (pointer, text, text, text, size)),
        ("rd_kafka_new", pointer, (number, pointer, text, size)),
        ("rd_kafka_destroy", None, (pointer,)),
        ("rd_kafka_mock_cluster_new", pointer, (pointer, number)),
        ("rd_kafka_mock_cluster_destroy", None, (pointer,)),
        ("rd_kafka_mock_cluster_bootstraps", text, (pointer,)),
        ("rd_kafka_mock_topic_create", number, (pointer, text, number, number)),
        ("rd_kafka_mock_coordinator_set", number, (pointer, text, text, ctypes.c_int32)),
        ("rd_kafka_mock_broker_set_down", number, (pointer, ctypes.c_int32)),
        (
            "rd_kafka_mock_push_request_errors_array", None,
            (pointer, ctypes.c_int16, size, ctypes.POINTER(ctypes.c_int)),
        ),
    ):  # fmt: skip
        function = getattr(library, name)
        function.restype, function.argtypes = answer, arguments
    return library
