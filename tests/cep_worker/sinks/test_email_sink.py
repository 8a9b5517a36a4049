"""The sink `email` with a real mail server: what it sends, to whom, and what it does when that is not taken."""

from __future__ import annotations

import email
import ssl
import threading
from collections.abc import Callable, Iterator
from email.message import Message
from email.policy import default
from pathlib import Path
from typing import Any

import pytest
import zmq
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session
from certificates import certificate_for_loopback
from free_ports import free_port
from worker_world import KEY, alerts, now_ms, sink_context, until

from cep_common.errors import ConfigError
from cep_common.protocol.registry import Connector
from cep_worker.connector_runtime.sink_types import make_sink
from cep_worker.outflows.consumers import FrameId, GroupId
from cep_worker.outflows.receipts import DeliveryReceipt
from cep_worker.runtime.event_loop import EventLoop
from cep_worker.sinks.base import EventSink

Mail = tuple[list[str], Message]


class MailServer:
    """A server that keeps the mails it gets; `says` answers instead, one word for each recipient."""

    def __init__(self, port: int, **options: Any) -> None:
        self.mails: list[Mail] = []
        self.says: dict[str, list[str]] = {}
        self.logins: list[tuple[bytes, bytes]] = []
        if "tls_context" in options or "auth_required" in options:
            options["authenticator"] = self._let_in
        self.controller = Controller(self, hostname="127.0.0.1", port=port, **options)
        self.controller.start()

    def stop(self) -> None:
        if self.controller.server is not None:
            self.controller.stop()

    def _let_in(self, _server: SMTP, _session: Session, _envelope: Envelope, _way: str, data: Any) -> AuthResult:
        assert isinstance(data, LoginPassword)
        self.logins.append((data.login, data.password))
        return AuthResult(success=data.password == b"secret", handled=False)

    async def handle_RCPT(  # noqa: N802 - the library's name
        self, _server: SMTP, _session: Session, envelope: Envelope, address: str, _options: list[str]
    ) -> str:
        if self.says.get(address):
            return self.says[address].pop(0)
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, _server: SMTP, _session: Session, envelope: Envelope) -> str:  # noqa: N802
        assert isinstance(envelope.content, bytes)
        self.mails.append((list(envelope.rcpt_tos), email.message_from_bytes(envelope.content, policy=default)))
        return "250 OK"


class Desk:
    """Gives work to sinks."""

    def __init__(self, port: int, context: zmq.Context[Any]) -> None:
        self.port = port
        self._event_loop = EventLoop()
        self._context = context
        self._sinks: list[EventSink] = []
        self.delivered = 0

    def sink(self, mapper: str = "", mapped: dict[str, str] | None = None, **options: str) -> EventSink:
        """A sink with these options besides the usual ones, which an empty text leaves out; `_` stands for `.`."""
        given = {
            "address": "alerts@example.com", "to": "ops@example.com", "subject": "Late", "host": "127.0.0.1",
            "port": str(self.port), "ssl.enable": "false", "auth": "false",
            **{name.replace("_", "."): value for name, value in options.items()},
        }  # fmt: skip
        options = {name: value for name, value in given.items() if value}
        connector = Connector("Alerts", "email", options, mapper, mapped or {})
        self._sinks.append(make_sink(sink_context(connector, self._event_loop, self._context)))
        return self._sinks[-1]

    def offer(self, sink: EventSink, *rows: tuple[Any, int], frame: FrameId | None = None) -> None:
        batch = alerts(*[(0, carrier, late) for carrier, late in rows])
        sink.offer(batch, None, DeliveryReceipt(1, self._count), frame)

    def send(self, sink: EventSink, *rows: tuple[Any, int], frame: FrameId | None = None) -> None:
        """The events are delivered, or given up."""
        self.offer(sink, *rows, frame=frame)
        self.until(sink.drained)

    def until(self, condition: Callable[[], object]) -> None:
        until(condition, self)

    def pump(self) -> None:
        self._event_loop.turn(5, now_ms)

    def _count(self) -> None:
        self.delivered += 1

    def close(self) -> None:
        for sink in self._sinks:
            sink.close()
        for thread in threading.enumerate():
            if thread.name.startswith("sink @sink(type='email')"):
                thread.join(5)
                assert not thread.is_alive()
        self._event_loop.close()


@pytest.fixture
def server() -> Iterator[MailServer]:
    made = MailServer(free_port())
    yield made
    made.stop()


@pytest.fixture
def desk(server: MailServer, context: zmq.Context[Any]) -> Iterator[Desk]:
    made = Desk(server.controller.port, context)
    yield made
    made.close()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A certificate for 127.0.0.1, and its key."""
    return certificate_for_loopback(tmp_path_factory.mktemp("certificate"))


@pytest.fixture
def trusted(certificate: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    """What a server shows its certificate with; anyone who calls takes it for good."""
    monkeypatch.setenv("SSL_CERT_FILE", certificate[0])
    shown = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    shown.load_cert_chain(*certificate)
    return shown


def body(mail: Message) -> str:
    payload = mail.get_payload(decode=True)
    assert isinstance(payload, bytes)
    return payload.decode().replace("\r\n", "\n").strip()


def test_each_event_is_a_mail_with_its_values_in_subject_and_addresses(desk: Desk, server: MailServer) -> None:
    sink = desk.sink(
        to="{{carrier}}@example.com, ops@example.com", subject="{{carrier}} is {{late}} min late",
        cc="Boss <boss@example.com>", bcc="log@example.com",
    )  # fmt: skip
    desk.send(sink, ("UA", 70), ("B6", 90))
    (first_to, first), (second_to, second) = server.mails
    assert sorted(first_to) == ["UA@example.com", "boss@example.com", "log@example.com", "ops@example.com"]
    assert (first["From"], first["Subject"]) == ("alerts@example.com", "UA is 70 min late")
    assert (first["To"], first["Cc"]) == ("UA@example.com, ops@example.com", "Boss <boss@example.com>")
    assert first["Bcc"] is None
    assert first.get_content_type() == "text/plain"
    assert body(first) == 'carrier:"UA",\nlate:70'
    assert (second_to[0], second["Subject"]) == ("B6@example.com", "B6 is 90 min late")
    assert desk.delivered == 1


def test_a_mapper_writes_the_body_as_it_is_asked_to(desk: Desk, server: MailServer) -> None:
    sink = desk.sink("text", {"payload": "<p>Flüge von {{carrier}}</p>"}, content_type="text/html")
    desk.send(sink, ("UA", 70))
    ((_, mail),) = server.mails
    assert (mail.get_content_type(), body(mail)) == ("text/html", "<p>Flüge von UA</p>")
    assert mail.as_bytes().isascii()


def test_values_with_line_ends_and_endless_ones_make_no_other_headers(desk: Desk, server: MailServer) -> None:
    sink = desk.sink(subject="About {{carrier}}")
    desk.send(sink, ("UA\r\nBcc: all@example.com", 1), ("x" * 900, 1))
    (to, mail), (_, long) = server.mails
    assert (to, mail["Subject"], mail["Bcc"]) == (["ops@example.com"], "About UA Bcc: all@example.com", None)
    assert len(long["Subject"]) == 500


@pytest.mark.parametrize("more", ["=0d=0aBcc:_all@example.com", "=0d=0a=0d=0aAnother_text", "=00"])
def test_values_with_encoded_words_are_not_decoded_into_headers_or_text(
    desk: Desk, server: MailServer, more: str
) -> None:
    sink = desk.sink(subject="About {{carrier}}")
    desk.send(sink, (f"=?utf-8?q?UA{more}?=", 1), ("U\x00A\x1b[2J", 2))
    (_, mail), (_, other) = server.mails
    assert (mail["Subject"], mail["To"], mail["Bcc"]) == (f"About = ?utf-8?q?UA{more}?=", "ops@example.com", None)
    assert body(mail).startswith("carrier:")
    assert other["Subject"] == "About U A [2J"


@pytest.mark.parametrize("to", ["", "   ", "a b c", "@", "<>"])
def test_an_event_that_names_nobody_is_dropped_and_others_go(desk: Desk, server: MailServer, to: str) -> None:
    sink = desk.sink(to="{{carrier}}")
    desk.send(sink, (to, 1), ("ops@example.com", 2))
    assert [recipients for recipients, _ in server.mails][-1] == ["ops@example.com"]
    assert sink.dropped_events == 2 - len(server.mails)
    assert sink.dropped_events == 1


@pytest.mark.parametrize("nobody", [None, "", " "])
def test_a_value_that_names_nobody_leaves_the_others_their_mail(
    desk: Desk, server: MailServer, nobody: str | None
) -> None:
    desk.send(desk.sink(cc="{{carrier}}"), (nobody, 1))
    ((to, mail),) = server.mails
    assert (to, mail["Cc"]) == (["ops@example.com"], None)
    domain = desk.sink(to="{{carrier}}@example.com")
    desk.send(domain, (nobody, 2))
    assert (len(server.mails), domain.dropped_events) == (1, 1)


def test_what_is_no_address_is_not_told_where_operators_read(desk: Desk, server: MailServer) -> None:
    sink = desk.sink(to="{{carrier}}")
    desk.send(sink, ("confidential", 1))
    assert sink.dropped_events == 1
    assert sink.last_error().endswith("the event has an invalid mail address")


@pytest.mark.parametrize(
    ("to", "told"),
    [
        ("a@[", "the event is not a valid mail"),
        ("(" * 3_000 + "a@example.com", "the event is not a valid mail"),
        ("a@example.com," * 1_000, "to: more than 10000 characters of addresses"),
    ],
)
def test_an_event_of_which_no_mail_can_be_made_is_dropped_alone(
    desk: Desk, server: MailServer, to: str, told: str
) -> None:
    sink = desk.sink(to="{{carrier}}")
    desk.send(sink, ("first@example.com", 1), (to, 2), ("last@example.com", 3))
    assert [recipients for recipients, _ in server.mails] == [["first@example.com"], ["last@example.com"]]
    assert sink.dropped_events == 1
    assert told in sink.last_error()


@pytest.mark.parametrize("to", ["jürgen@example.com", "a@münchen.example"])
def test_addresses_that_a_server_does_not_understand_do_not_stop_the_plan(context: zmq.Context[Any], to: str) -> None:
    server = MailServer(free_port(), enable_SMTPUTF8=False)
    desk = Desk(server.controller.port, context)
    sink = desk.sink(to="{{carrier}}")
    desk.send(sink, (to, 1), ("ops@example.com", 2))
    assert [recipients for recipients, _ in server.mails] == [["ops@example.com"]]
    assert sink.dropped_events == 1
    assert "accepts only ASCII addresses" in sink.last_error()
    desk.close()
    server.stop()


def test_what_the_server_refuses_is_dropped_and_what_it_may_take_later_is_tried_again(
    desk: Desk, server: MailServer
) -> None:
    server.says = {"no@example.com": ["550 nobody here"], "later@example.com": ["451 busy", "421 closing"]}
    sink = desk.sink(to="{{carrier}}@example.com")
    desk.send(sink, ("no", 1), ("later", 2), ("ops", 3))
    assert [recipients for recipients, _ in server.mails] == [["later@example.com"], ["ops@example.com"]]
    assert sink.dropped_events == 1
    assert f"127.0.0.1:{desk.port} says 550 nobody here" in sink.last_error()
    desk.send(sink, ("ops", 4))
    assert sink.last_error() == ""


def test_a_mail_that_is_taken_for_some_is_tried_for_those_whom_it_may_reach_and_counted_if_it_cannot(
    desk: Desk, server: MailServer
) -> None:
    server.says = {
        "no@example.com": ["550 nobody here"], "later@example.com": ["451 busy"], "closed@example.com": ["421 closing"],
    }  # fmt: skip
    sink = desk.sink(to="{{carrier}}", cc="ops@example.com")
    desk.send(sink, ("no@example.com, later@example.com", 1))
    assert [recipients for recipients, _ in server.mails] == [["ops@example.com"], ["later@example.com"]]
    assert sink.dropped_events == 1
    assert "says 550 nobody here" in sink.last_error()
    desk.send(sink, ("closed@example.com", 2))
    assert [recipients for recipients, _ in server.mails][2:] == [["closed@example.com", "ops@example.com"]]
    server.says = {"no@example.com": ["550 nobody here"], "later@example.com": ["451 busy"]}
    desk.send(sink, ("no@example.com", 3), ("no@example.com, later@example.com", 4))
    assert sink.dropped_events == 2


def test_a_server_that_is_not_there_is_waited_for_or_given_up(
    desk: Desk, server: MailServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cep_worker.sinks.retries.WAITS_S", (0.02,))
    server.stop()
    waiting, hasty = desk.sink(), desk.sink(on_error="LOG", retry_count="2")
    desk.send(hasty, ("UA", 1))
    assert "dropped after 3 attempts: 127.0.0.1" in hasty.last_error()
    desk.offer(waiting, ("UA", 2))
    desk.until(waiting.last_error)
    assert "Connection refused" in waiting.last_error()
    back = MailServer(desk.port)
    desk.until(waiting.drained)
    assert len(back.mails) == 1
    back.stop()


def test_a_mail_that_comes_again_has_the_same_id(desk: Desk, server: MailServer) -> None:
    sink = desk.sink()
    frame = FrameId(GroupId(KEY, "publisher#0", 7, 0, 3, "log"), 1)
    desk.send(sink, ("UA", 1), ("B6", 1), frame=frame)
    desk.send(sink, ("UA", 1), ("B6", 1), frame=frame)
    ids = [mail["Message-ID"] for _, mail in server.mails]
    assert ids[:2] == ids[2:]
    assert len(set(ids)) == 2


def test_mails_of_several_sinks_and_of_plans_that_promise_less_have_ids_of_their_own(
    desk: Desk, server: MailServer
) -> None:
    frame = FrameId(GroupId(KEY, "publisher#0", 7, 0, 3, "log"), 1)
    sinks = [desk.sink(to="boss@example.com, ops@example.com"), desk.sink(), desk.sink(subject="Too late")]
    for sink in sinks:
        desk.send(sink, ("UA", 1), frame=frame)
    desk.send(sinks[0], ("UA", 1), ("UA", 1))
    ids = [mail["Message-ID"] for _, mail in server.mails]
    assert all(ids)
    assert len(set(ids)) == 5


@pytest.mark.parametrize("from_the_beginning", [True, False])
def test_the_password_is_shown_over_tls_alone(
    context: zmq.Context[Any], trusted: ssl.SSLContext, tmp_path: Path, from_the_beginning: bool
) -> None:
    (tmp_path / "password").write_text("secret\n", encoding="utf-8")
    tls = {"ssl_context": trusted} if from_the_beginning else {"tls_context": trusted}
    server = MailServer(free_port(), auth_required=True, auth_require_tls=not from_the_beginning, **tls)
    desk = Desk(server.controller.port, context)
    sink = desk.sink(ssl_enable=str(from_the_beginning), auth="true", password_file=str(tmp_path / "password"))
    desk.send(sink, ("UA", 1))
    assert sink.last_error() == ""
    assert (len(server.mails), server.logins) == (1, [(b"alerts@example.com", b"secret")])
    wrong = desk.sink(ssl_enable=str(from_the_beginning), auth="true", password="guessed", username="someone")  # noqa: S106
    desk.offer(wrong, ("UA", 1))
    desk.until(wrong.last_error)
    assert "refuses the login of someone: 535" in wrong.last_error()
    assert "guessed" not in wrong.last_error()
    desk.close()
    server.stop()


def test_a_server_without_tls_is_not_shown_the_password(desk: Desk, server: MailServer) -> None:
    sink = desk.sink(auth="true", password="secret")  # noqa: S106
    desk.offer(sink, ("UA", 1))
    desk.until(sink.last_error)
    assert "it does not offer TLS, and the password is not sent without it" in sink.last_error()
    assert not server.mails


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"auth": "true"}, "needs password.file \\(or password\\), or auth='false'"),
        ({"auth": "true", "password_file": "/no/such"}, "password.file: /no/such cannot be read"),
        ({"subject": "{{carier}}"}, "subject: no such attribute: carier"),
        ({"address": "@"}, "address: must be a mail address"),
        ({"address": "a@example.com, b@example.com"}, "address: must be a mail address"),
        ({"address": "a@example.com\nBcc: b@example.com"}, "address: must be a mail address"),
        ({"auth": "true", "password": "geheimnüs"}, "password: only ASCII characters are supported$"),
        ({"port": ""}, "port: 465 is for TLS from the start"),
        ({"to": ""}, "missing required option to"),
        ({"port": "70000"}, "port: "),
        ({"attachments": "x"}, "unknown option attachments"),
        ({"host": "{{carrier}}"}, "cannot differ from event to event"),
    ],
)
def test_options_that_cannot_be_are_told(desk: Desk, options: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        desk.sink(**options)
