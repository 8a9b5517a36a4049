"""Sink `email`: sends a mail for each event."""

from __future__ import annotations

import errno
import hashlib
import io
import logging
import re
import smtplib
import ssl
import threading
from contextlib import suppress
from email.message import EmailMessage
from email.policy import default
from email.utils import formatdate, getaddresses, make_msgid
from typing import Any

import pyarrow as pa

from cep_common.configuration.password_files import PasswordFileError, read_password
from cep_common.errors import ConfigError
from cep_common.monitoring.paced_log import PacedLog
from cep_common.reach.connecting import ReachError, allowed_addresses
from cep_common.reach.guard import Guard
from cep_common.web.client import MOST_BYTES, BoundedSocket
from cep_worker.failed_events.entries import FailedBatch
from cep_worker.formats.sink_mappers.registry import sink_mapper
from cep_worker.formats.sink_mappers.template import Row, SinkMapper, Template
from cep_worker.formats.value_texts import value_text
from cep_worker.outflows.consumers import FrameId, GroupId
from cep_worker.sinks.base import EventSink, SinkContext
from cep_worker.sinks.http import idempotency_key
from cep_worker.sinks.retries import RetryableError, deliver_with_retries, retry_policy
from cep_worker.sinks.threaded import ThreadedSink, WriteError
from query_plan.connectors.options import options_of
from query_plan.connectors.reach import SMTP
from query_plan.connectors.sinks import ADDRESS, UNREADABLE, EmailOptions
from topology.events.frames import event_rows

logger = logging.getLogger(__name__)
paced_logger = PacedLog(logger)

LONGEST_SUBJECT = 500
"""The maximum characters of a subject; longer ones are cut."""
LONGEST_ADDRESSES = 10_000
"""Characters of `to`, `cc` or `bcc`; an event that makes more is dropped, as reading them takes too long."""
_NOT_TEXT = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")
_SEVEN_BIT = default.clone(cte_type="7bit")
"""Mails are ASCII only, since not every server supports 8BITMIME."""
_ID_DOMAIN = "cep-on-spark"
_READY = 220
"""The reply of a mail server that accepts connections."""
_PASSING = range(400, 500)
"""The reply of a mail server that may accept the mail later."""

_Answers = dict[str, tuple[int, bytes]]
"""The replies of a server for recipients that it did not accept."""


def _address_text(kind: str, value: Any) -> str:
    """Return the text of a value in an address; null is an empty text."""
    return "" if value is None else value_text(kind, value)


class _MailTemplates:
    """Builds the mail of an event."""

    def __init__(self, options: EmailOptions, context: SinkContext) -> None:
        self._options = options
        self._heads = {
            header: Template(
                text, context.schema, context.where(), value_text if header == "Subject" else _address_text,
                header.casefold(),
            )
            for header, text in (
                ("Subject", options.subject), ("To", options.to), ("Cc", options.cc), ("Bcc", options.bcc)
            )
            if text
        }  # fmt: skip

    def letter(self, row: Row, body: str, identity: str) -> EmailMessage:
        """Return the mail. Mails with the same `identity` are identical.

        Raises:
            WriteError: the event does not make a valid mail.
        """
        letter = EmailMessage(_SEVEN_BIT)
        letter["From"] = self._options.address
        letter["Date"] = formatdate(localtime=True)
        try:
            for header, template in self._heads.items():
                text = _NOT_TEXT.sub(" ", template.fill(row).decode()).strip()
                text = text.replace("=?", "= ?")  # the library would decode an encoded word
                if header != "Subject" and len(text) > LONGEST_ADDRESSES:
                    raise WriteError(f"{header.casefold()}: more than {LONGEST_ADDRESSES} characters of addresses")
                if text:
                    letter[header] = text[:LONGEST_SUBJECT] if header == "Subject" else text
            subtype = self._options.content_type.partition("/")[2]
            letter.set_content(body, subtype=subtype, charset="utf-8")
            addresses = _recipients(letter)
        except UNREADABLE as error:
            raise WriteError(f"the event is not a valid mail: {error}") from error
        letter["Message-ID"] = _message_id(letter, body, identity)
        if not addresses:
            raise WriteError("the event has no mail recipient")
        if not all(map(ADDRESS.fullmatch, addresses)):
            raise WriteError("the event has an invalid mail address")
        return letter


def _message_id(letter: EmailMessage, body: str, identity: str) -> str:
    """Return a unique Message-ID; for an event with an `identity` always the same for a sink."""
    if not identity:
        return make_msgid(domain=_ID_DOMAIN)
    parts = (identity, body, *(str(letter[one] or "") for one in ("From", "To", "Cc", "Bcc", "Subject")))
    return f"<{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()}@{_ID_DOMAIN}>"


def _recipients(letter: EmailMessage) -> list[str]:
    """Return all addresses, each once."""
    heads = [str(letter[one]) for one in ("To", "Cc", "Bcc") if letter[one]]
    return list(dict.fromkeys(address for _, address in getaddresses(heads)))


class _SmtpConnection(smtplib.SMTP):
    """A connection that limits the size and the time of the server's replies."""

    _bounds: BoundedSocket | None = None

    def getreply(self) -> tuple[int, bytes]:
        if self.file is None and self.sock is not None:
            self._bounds = BoundedSocket(self.sock, MOST_BYTES)
            self.file = io.BufferedReader(self._bounds)
        elif self._bounds is not None:
            self._bounds.renew()
        return super().getreply()


class _SmtpTlsConnection(_SmtpConnection, smtplib.SMTP_SSL):
    """As `_SmtpConnection`, encrypted from its first byte on."""


class _MailServer:
    """A mail server, with a connection that is kept while mails are sent."""

    def __init__(self, options: EmailOptions, password: str, guard: Guard | None) -> None:
        self._guard = guard
        self._options = options
        self._password = password
        self._link: smtplib.SMTP | None = None

    def send(self, letter: EmailMessage, recipients: list[str]) -> _Answers:
        """Send the mail and return the answers for recipients that the server did not accept.

        Raises:
            SMTPException: the server refuses, and OSError when it cannot be reached.
            WriteError: the mail can never be sent.
        """
        if self._link is None:
            self._link = self._connected()
        try:
            return self._link.send_message(letter, to_addrs=recipients)
        except smtplib.SMTPRecipientsRefused as error:  # no single recipient: after 421 the others have not been tried
            unasked = list(error.recipients.values())[-1]
            return {**dict.fromkeys(recipients, unasked), **error.recipients}
        except smtplib.SMTPNotSupportedError as error:
            where = f"{self._options.host}:{self._options.port}"
            raise WriteError(f"{where} accepts only ASCII addresses (no SMTPUTF8)") from error
        except UNREADABLE as error:
            raise WriteError(f"the event is not a valid mail: {error}") from error

    def hang_up(self) -> None:
        """Close the connection; the next mail opens another one."""
        link, self._link = self._link, None
        if link is not None:
            with suppress(smtplib.SMTPException, OSError):
                link.quit()
            link.close()

    def _connected(self) -> smtplib.SMTP:
        options = self._options
        timeout_s = options.timeout_ms / 1_000
        encrypted = options.ssl_enable == "true"
        kind: Any = _SmtpTlsConnection if encrypted else _SmtpConnection
        given = {"context": ssl.create_default_context()} if encrypted else {}
        link: smtplib.SMTP = kind(timeout=timeout_s, **given)
        link._host = options.host  # type: ignore[attr-defined]  # to whom the certificate must belong
        try:
            self._connect(link)
            self._introduce(link, encrypted=encrypted)
        except BaseException:
            link.close()
            raise
        return link

    def _connect(self, link: smtplib.SMTP) -> None:
        """Connect and log in.

        Raises:
            SMTPException: the server refuses, and OSError when it cannot be reached.
        """
        code, said = link.connect(self._address(), self._options.port)
        if code != _READY:
            raise smtplib.SMTPConnectError(code, said)

    def _address(self) -> str:
        """Return the address that the host's name resolves to now.

        Raises OSError.
        """
        host, port = self._options.host, self._options.port
        if self._guard is None:
            return host
        try:
            return allowed_addresses(self._guard, SMTP, host, port)[0]
        except ReachError as error:
            raise PermissionError(errno.EACCES, error.message) from error

    def _introduce(self, link: smtplib.SMTP, *, encrypted: bool) -> None:
        """Encrypt the connection if possible and log in.

        Raises:
            SMTPException: the server refuses.
        """
        link.ehlo_or_helo_if_needed()
        if not encrypted and link.has_extn("starttls"):
            link.starttls(context=ssl.create_default_context())
            link.ehlo()
            encrypted = True
        if self._options.auth == "true":
            if not encrypted:
                raise smtplib.SMTPNotSupportedError("it does not offer TLS, and the password is not sent without it")
            link.login(self._options.username or self._options.address, self._password)


class _EmailWriter:
    def __init__(self, options: EmailOptions, letters: _MailTemplates, server: _MailServer, mapper: SinkMapper) -> None:
        self.problem = ""
        self.steps = 0
        self._options = options
        self._letters = letters
        self._server = server
        self._mapper = mapper
        self._retries = retry_policy(options.on_error, options.retry_count)

    def write(self, batch: pa.RecordBatch, frame: FrameId | None, stopping: threading.Event) -> None:
        """Send one mail after the other; failed ones do not block the others."""
        unwanted: list[FailedBatch] = []
        for number, (row, body) in enumerate(zip(event_rows(batch), self._mapper.events(batch), strict=True)):
            identity = "" if frame is None else idempotency_key(frame, number)
            try:
                self._deliver(self._letters.letter(row, body.decode(), identity), stopping)
            except WriteError as error:
                unwanted.append(FailedBatch(batch.slice(number, 1), error.message))
                self.problem = ""
            if stopping.is_set():
                if number + 1 < batch.num_rows:
                    unwanted.append(FailedBatch(batch.slice(number + 1), "the sink ended before delivery"))
                break
        if not stopping.is_set():
            self._server.hang_up()  # the next event may be much later, and servers close idle connections
        if unwanted:
            raise WriteError(unwanted[-1].reason, unwanted)

    def commit(self, group: GroupId, stopping: threading.Event) -> None:
        """Do nothing: each mail is independent; its Message-ID shows whether it was sent before."""

    def close(self) -> None:
        self._server.hang_up()

    def _deliver(self, letter: EmailMessage, stopping: threading.Event) -> None:
        """Send the mail to each recipient once."""
        missing = _recipients(letter)
        refused = ""

        def attempt() -> None:
            nonlocal missing, refused
            answers, problem = self._try(letter, missing)
            later = {who: answer for who, answer in answers.items() if answer[0] in _PASSING}
            for who in answers.keys() - later.keys():
                refused = self._says(*answers[who])
            if not problem:
                missing = list(later)
                problem = self._says(*next(iter(later.values()))) if later else ""
            if problem:
                self._server.hang_up()
                raise RetryableError(problem)

        deliver_with_retries(attempt, self._retries, stopping, self._report)
        if refused:
            self._server.hang_up()
            raise WriteError(f"refused: {refused}")

    def _report(self, problem: str) -> None:
        self.problem = problem
        host = self._options.host
        if problem:
            paced_logger.problem(host, "mail failed: host=%s reason=%s", host, problem)
        else:
            paced_logger.over(host, "mail is accepted again: host=%s", host)

    def _try(self, letter: EmailMessage, recipients: list[str]) -> tuple[_Answers, str]:
        """Return the server's replies for recipients that it did not accept."""
        where = f"{self._options.host}:{self._options.port}"
        try:
            return self._server.send(letter, recipients), ""
        except (smtplib.SMTPSenderRefused, smtplib.SMTPDataError) as error:
            said = error.smtp_error.encode() if isinstance(error.smtp_error, str) else error.smtp_error
            return dict.fromkeys(recipients, (error.smtp_code, said)), ""
        except smtplib.SMTPAuthenticationError as error:
            who = self._options.username or self._options.address
            return {}, f"{where} refuses the login of {who}: {error.smtp_code}"
        except smtplib.SMTPException as error:
            return {}, f"{type(error).__name__} at {where}: {error}"
        except OSError as error:
            return {}, f"{where}: {error.strerror or type(error).__name__}"

    def _says(self, code: int, said: bytes) -> str:
        text = " ".join(said.decode("utf-8", "replace").split())
        return f"{self._options.host}:{self._options.port} says {code} {text}"


def email_sink(context: SinkContext) -> EventSink:
    """Return a sink that sends mails.

    Raises:
        ConfigError: options that cannot be used.
    """
    options = options_of(EmailOptions, context.connector.options)
    password = options.password
    if options.password_file:
        try:
            password = read_password(options.password_file)
        except PasswordFileError as error:
            raise ConfigError(f"{context.where()}: password.file: {error}") from error
    if options.auth == "true" and not password:
        raise ConfigError(f"{context.where()}: needs password.file (or password), or auth='false'")
    if options.auth == "true" and not f"{options.username or options.address}{password}".isascii():
        raise ConfigError(f"{context.where()}: username, password: only ASCII characters are supported")
    letters = _MailTemplates(options, context)
    mapper = sink_mapper(context.connector, context.schema, default="text")
    writer = _EmailWriter(options, letters, _MailServer(options, password, context.guard), mapper)
    return ThreadedSink(context, writer, options.on_error)
