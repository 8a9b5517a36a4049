"""Secrets are covered, and nothing else is."""

from __future__ import annotations

import time

import pytest

from cep_common.configuration.redaction import COVER, redact, redact_setting
from cep_common.security.web import NOT_KNOWN, SHOW_ONE


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("connect failed: url=postgresql://cep:hunter2@db/cep", "hunter2"),
        ("connect failed: url=postgresql://cep:hunt@er2@db/cep", "er2"),
        ("connect failed: url=postgresql://cep:p/w+x=@db/cep", "w+x"),
        ("connect failed: url=postgresql://cep:/hunter2@db/cep", "hunter2"),
        ("connect failed: url=postgresql://cep:hunter's2@db/cep", "hunter"),
        ("connect failed: url=postgresql://cep:12345@db/cep", "12345"),
        ("redis://:hunter2/@cache:6379", "hunter2"),
        ('{"url": "postgresql://cep:hunter/2@db/cep", "mail": "a@b"}', "hunter/2"),
        ("sink options password='hunter 2' url=x", "hunter 2"),
        ('{"user": "u", "password": "hunter2"}', "hunter2"),
        ("{'api_key': 'hunter2'}", "hunter2"),
        ("header Authorization: Bearer abcdefgh12345678", "abcdefgh12345678"),
        ("header Authorization: Basic dXNlcjpwYXNz", "dXNlcjpwYXNz"),
        ("bad token cep_AbCdEfGhIjKlMnOpQrStUvWxYz0123456789AbCdEfG in header", "AbCdEfGhIjKl"),
        ("access_token=s3cr3t&x=1", "s3cr3t"),
        ('    secret-key = "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7"', "rq:rM"),
        ("aws.secret.access.key=AKIA/abc", "AKIA/abc"),
        ("DB_PASSWORD=hunter2", "hunter2"),
    ],
)
def test_a_secret_is_covered(text: str, secret: str) -> None:
    assert secret not in redact(text)
    assert COVER in redact(text)


@pytest.mark.parametrize(
    "text",
    [
        "manager led before: token=3 current=4",
        "keys/worker.key_secret: every user of this host can read it; chmod 600",
        "executor joined: executor=0 host=10.0.0.1 slots=4",
        SHOW_ONE,
        NOT_KNOWN,
        "manager=tcp://127.0.0.1:8904 plan=Storms[-1234]",
        "manager=tcp://127.0.0.1:8904 user=cep@example.org",
        "GET http://h:80/users/a@b",
        "listening: endpoint=tcp://[::1]:8904/a@b",
        "https://example.org/mail/a@b",
        "password=",
    ],
)
def test_what_is_no_secret_is_left(text: str) -> None:
    assert redact(text) == text


def test_hostile_texts_take_no_longer_than_others() -> None:
    begun_s = time.process_time()
    for text in (
        "x" * 200_000,
        "a.b-" * 50_000,
        "://a:" * 40_000,
        "://a:'/" * 30_000,
        "://" * 60_000,
        "token" * 40_000,
        "password='" * 20_000,
    ):
        assert len(redact(text)) > 0
    assert time.process_time() - begun_s < 5


def test_where_a_password_ends_the_rest_of_the_address_is_left() -> None:
    text = redact('{"url": "postgresql://cep:hunter/2@db:5432/cep", "mail": "a@b"}')
    assert text == f'{{"url": "postgresql://cep:{COVER}@db:5432/cep", "mail": "a@b"}}'


def test_settings_are_covered_by_their_names_and_within_mappings() -> None:
    conf = {"spark.ssl.keyPassword": "hunter2", "spark.executor.memory": "2g", "fs.s3a.secret.key": "x"}
    assert redact_setting("spark.conf", conf) == {
        "spark.ssl.keyPassword": COVER,
        "spark.executor.memory": "2g",
        "fs.s3a.secret.key": COVER,
    }
    assert redact_setting("database.url", "postgresql://cep:hunter2@db/cep") == f"postgresql://cep:{COVER}@db/cep"
    assert redact_setting("sinks.password", "hunter2") == COVER
    assert redact_setting("sinks.password", "") == ""


@pytest.mark.parametrize(
    ("key", "value"),
    [("security.tokens", "conf/tokens.json"), ("security.keys", "keys"), ("security.certificate_key", "key.pem")],
)
def test_settings_that_name_files_of_secrets_are_shown(key: str, value: str) -> None:
    assert redact_setting(key, value) == value


def test_lists_of_folders_are_no_secrets() -> None:
    assert redact_setting("password_files.folders", ["/etc/cep"]) == ["/etc/cep"]
    assert redact_setting("password_file", "/etc/cep/x") == COVER
