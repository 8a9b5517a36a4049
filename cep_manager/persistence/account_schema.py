"""The tables of accounts in the managers' database."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Index, Integer, MetaData, String, Table, Text

ACCOUNTS = MetaData()

USERS = Table(
    "cep_users",
    ACCOUNTS,
    Column("name", String(64), primary_key=True),
    Column("password_hash", Text, nullable=False),
    Column("role", String(16), nullable=False),
    Column("tenant", Integer),
    Column("disabled", Boolean, nullable=False),
    Column("must_change_password", Boolean, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("login_ms", BigInteger, nullable=False),
)

# Sessions and tokens are kept by the hash of their secrets, so that reading the database does not allow to use them.
SESSIONS = Table(
    "cep_sessions",
    ACCOUNTS,
    Column("sha256", String(64), primary_key=True),
    Column("user", String(64), nullable=False, index=True),
    Column("data", Text, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("used_ms", BigInteger, nullable=False),
    Column("address", String(64), nullable=False),
    Column("agent", String(200), nullable=False),
)

TOKENS = Table(
    "cep_personal_tokens",
    ACCOUNTS,
    Column("sha256", String(64), primary_key=True),
    Column("user", String(64), nullable=False),
    Column("name", String(64), nullable=False),
    Column("role", String(16), nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("expires_ms", BigInteger, nullable=False),
    Column("used_ms", BigInteger, nullable=False),
    Index("cep_personal_tokens_of_user", "user", "name", unique=True),
)

# The same call by the same person within a minute is one row that counts.
AUDIT = Table(
    "cep_audit",
    ACCOUNTS,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("at_ms", BigInteger, nullable=False, index=True),
    Column("last_ms", BigInteger, nullable=False),
    Column("times", Integer, nullable=False),
    Column("who", String(64), nullable=False),
    Column("shown", String(16), nullable=False),
    Column("address", String(64), nullable=False),
    Column("call", String(64), nullable=False),
    Column("target", String(200), nullable=False),
    Column("status", Integer, nullable=False),
)

# A secret shared by all managers, with which they sign the CSRF tokens of forms.
SECRETS = Table(
    "cep_secrets",
    ACCOUNTS,
    Column("name", String(32), primary_key=True),
    Column("value", String(64), nullable=False),
)
