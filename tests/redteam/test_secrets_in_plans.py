"""Viewers and senders look for what only editors may know; workers resolve what nobody else has."""

from __future__ import annotations

from pathlib import Path

import pytest

from cep_common.configuration.redaction import redact, shown_url
from cep_common.configuration.secrets import Secrets
from cep_common.errors import ConfigError
from cep_common.protocol.registry import Connector
from query_plan.connectors.judging import connector_faults
from query_plan.examination import examine
from query_plan.secrets import mask_in, mask_plan

PLAN = """@Plan:name('P')
@Import('In:1.0.0')
define stream In (a string);
@Export('Out:1.0.0')
-- basic.auth.password='inAComment'
@sink(type='http', publisher.url='https://me:urlPassword@hooks.example.org:8443/services/T0/PathSecret?key=querySecret',
      headers="'Authorization: Bearer headerSecret','X-Api-Key: keySecret','Content-Type: text/plain'",
      basic.auth.username='cep', basic.auth.password = 'hush<&1', consumer.secret=\"\"\"tripleSecret\"\"\",
      refresh.token="tokenSecret", @map(type='json'))
define stream Out (a string);
@Store(type='rdbms', jdbc.url='jdbc:postgresql://db/x?user=u&password=jdbcSecret', password='storeSecret')
define table T (a string);
@Store(type='rdbms', url='postgresql://me:pw0rdInUrl@db/x', password='${secret:DB}',
       password.file='/etc/cep/db.password')
define table U (a string);
from In[a == 'hush<&1'] select a insert into Out;
from In select a insert into T;
from In select a insert into U;
"""
SECRETS = (
    "inAComment", "urlPassword", "PathSecret", "querySecret", "headerSecret", "keySecret", "hush", "tripleSecret",
    "tokenSecret", "jdbcSecret", "storeSecret", "pw0rdInUrl",
)  # fmt: skip


def test_no_secret_is_left_in_a_covered_text() -> None:
    covered = mask_plan(PLAN).replace("a == 'hush<&1'", "")
    assert [secret for secret in SECRETS if secret in covered] == []
    for kept in ("${secret:DB}", "/etc/cep/db.password", "hooks.example.org:8443", "basic.auth.username='cep'",
                 "Content-Type: text/plain", "define table T", "insert into U"):  # fmt: skip
        assert kept in covered


def test_no_secret_is_left_in_what_is_made_of_a_plan() -> None:
    text = PLAN.replace(", consumer.secret=", ", oauth.scope=").replace("refresh.token=", "proxy.password=")
    compiled = examine(text).compiled
    assert compiled is not None
    assert "storeSecret" in compiled.xml
    covered = mask_in(compiled.xml, text).replace("a == 'hush", "")
    assert [secret for secret in SECRETS if secret in covered] == []


@pytest.mark.parametrize("text", ["password='", 'a="""' * 1_000, "password=" * 100_000, "a='b" * 50_000, "'" * 100_001])
def test_any_text_is_covered_in_no_time(text: str) -> None:
    mask_plan(text)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for tenant, value in (("7", "sevenSecret\n"), ("8", "eightSecret")):
        (tmp_path / tenant).mkdir()
        (tmp_path / tenant / "HOOK").write_text(value)
        (tmp_path / tenant / "HOOK").chmod(0o600)
    return tmp_path


def test_a_tenant_has_its_own_secrets_alone(folder: Path) -> None:
    secrets = Secrets(str(folder), "secrets")
    assert secrets.resolved({"publisher.url": "https://x/${secret:HOOK}"}, 7) == {
        "publisher.url": "https://x/sevenSecret"
    }
    assert secrets.fill("${secret:HOOK}", 8) == "eightSecret"
    with pytest.raises(ConfigError, match=r"password: there is no secret HOOK of tenant 9 in secrets: No such file"):
        secrets.resolved({"password": "${secret:HOOK}"}, 9)
    with pytest.raises(ConfigError, match="to the folder of the secrets"):
        Secrets("", "secrets").fill("${secret:HOOK}", 7)


@pytest.mark.parametrize("name", ["../8/HOOK", "..", ".", "", "/etc/passwd", "a/b", "a\0b", "x" * 129])
def test_no_name_leads_out_of_the_tenants_folder(folder: Path, name: str) -> None:
    text = "${secret:" + name + "}"
    filled = ""
    with pytest.raises(ConfigError):
        filled = Secrets(str(folder), "secrets").fill(text, 7)
    assert filled == ""
    connector = Connector("Out", "email", {"to": "a@b.c", "subject": "s", "address": "a@b.c", "password": text}, "", {})
    assert [
        one for one in connector_faults("sink", connector, ["a"]) if "not a valid name of a secret" in one.fault.message
    ]


def test_a_secret_that_everybody_can_read_is_refused(folder: Path) -> None:
    (folder / "7" / "HOOK").chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600") as refused:
        Secrets(str(folder), "secrets").fill("${secret:HOOK}", 7)
    assert "sevenSecret" not in str(refused.value)


def test_what_was_resolved_is_in_no_log(folder: Path) -> None:
    Secrets(str(folder), "secrets").fill("${secret:HOOK}", 7)
    assert redact("cannot log in with sevenSecret at db") == "cannot log in with ••• at db"


def test_a_reference_is_judged_as_what_it_may_be() -> None:
    options = {"publisher.url": "${secret:HOOK}", "basic.auth.username": "u", "basic.auth.password": "${secret:P}"}
    assert list(connector_faults("sink", Connector("Out", "http", options, "", {}), ["a"])) == []


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://me:pw@h.example.org/a/b?c=d", "https://h.example.org/•••"),
        ("http://h:8080", "http://h:8080"),
        ("http://[::1]:80/", "http://[::1]:80"),
        ("http://h:x/secret", "•••"),
    ],
)
def test_errors_show_where_and_no_more(url: str, shown: str) -> None:
    assert shown_url(url) == shown
