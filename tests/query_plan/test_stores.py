"""The options of `@Store(type='rdbms', …)`, and JDBC URLs."""

from __future__ import annotations

import pytest

from query_plan.databases.jdbc_urls import JdbcUrlError, from_jdbc
from query_plan.databases.stores import Store, StoreError, store_of
from siddhi.analysis.analyser import analyse
from siddhi.language.parser import parse

PLAN = """
define stream A (k string, v int);
{annotation} define table T (k string, v int);
from A select k, v insert into T;
"""


def read(annotation: str) -> Store | None:
    return store_of(analyse(parse(PLAN.format(annotation=annotation))).tables["T"])


@pytest.mark.parametrize(
    ("jdbc", "found"),
    [
        ("jdbc:postgresql://db:5432/stocks", ("postgresql+psycopg://db:5432/stocks", "", "")),
        ("jdbc:postgresql://db/s?user=cep&password=p%20w&ssl=true&sslmode=require",
         ("postgresql+psycopg://db/s?sslmode=require", "cep", "p w")),
        ("JDBC:mysql://localhost:3306/sweetFactoryDB?useSSL=false",
         ("mysql+pymysql://localhost:3306/sweetFactoryDB", "", "")),
        ("jdbc:sqlserver://db:1433;databaseName=stocks;user=sa;password=x=y;encrypt=true",
         ("mssql+pymssql://db:1433/stocks", "sa", "x=y")),
        ("jdbc:oracle:thin:@db:1521/orcl", ("oracle+oracledb://db:1521/?service_name=orcl", "", "")),
        ("jdbc:oracle:thin:@db:1521:orcl", ("oracle+oracledb://db:1521/orcl", "", "")),
        ("jdbc:postgresql://db/s?currentSchema=stocks",
         ("postgresql+psycopg://db/s?options=-csearch_path%3Dstocks", "", "")),
        ("jdbc:mysql://cep:p%40w@db/stocks", ("mysql+pymysql://db/stocks", "cep", "p@w")),
        ("jdbc:sqlite:/var/cep/stocks.db", ("sqlite:////var/cep/stocks.db", "", "")),
    ],
)  # fmt: skip
def test_a_jdbc_url_is_one_of_sqlalchemy(jdbc: str, found: tuple[str, str, str]) -> None:
    assert from_jdbc(jdbc) == found


@pytest.mark.parametrize("text", ["jdbc:", "jdbc:h2", "postgresql://db/s", "jdbc:db2://db/s", "jdbc:postgresql:s",
                                  "jdbc:sqlserver:db", "jdbc:oracle:oci:@db"])  # fmt: skip
def test_what_is_no_such_url_is_told(text: str) -> None:
    with pytest.raises(JdbcUrlError) as refused:
        from_jdbc(text)
    assert not refused.value.java_only


def test_a_store_says_where_its_rows_are() -> None:
    store = read(
        "@Store(type='RDBMS', jdbc.url='jdbc:mysql://db/stocks', username='cep', password='secret', table.name='limits'"
        ", jdbc.driver.name='com.mysql.jdbc.Driver', field.length='k:20', refresh.interval='2 sec', create='false')"
    )
    assert store == Store(
        "limits", "mysql+pymysql://db/stocks", "cep", "secret", "", "", {"k": 20}, 2_000, creates=False
    )
    assert "secret" not in repr(store)


@pytest.mark.parametrize(
    ("annotation", "store"),
    [
        ("", None),
        ("@PrimaryKey('k')", None),
        ("@store(type='rdbms', datasource='STOCKS')", Store("T", datasource="STOCKS")),
        ("@store(type='rdbms', url='sqlite://', refresh.interval='0')", Store("T", "sqlite://", refresh_ms=0)),
        ("@From(eventtable='rdbms', datasource.name='STOCKS', table.name='t')", Store("t", datasource="STOCKS")),
        ("@store(type='rdbms', url='sqlite://', field.length='z:3')", Store("T", "sqlite://", field_lengths={"z": 3})),
        (
            "@store(type='rdbms', jdbc.url='jdbc:postgresql://db/s?user=a', username='b')",
            Store("T", "postgresql+psycopg://db/s", "b"),
        ),
    ],
)
def test_what_is_left_out_has_a_default(annotation: str, store: Store | None) -> None:
    assert read(annotation) == store


@pytest.mark.parametrize(
    ("annotation", "message", "kept"),
    [
        ("@store(type='mongodb')", "no store of the type 'mongodb' is known", True),
        ("@From(eventtable='analytics.table')", "no store of the type 'analytics.table'", True),
        ("@store(type='rdbms', jdbc.url='jdbc:h2:./x')", "runs inside a Java process", True),
        ("@store(type='rdbms', jndi.resource='java:x')", "it names no database", True),
        ("@store(type='rdbms')", "it names no database", False),
        ("@store(type='rdbms', jdbc.url='mysql://db/s')", "is not a JDBC URL", False),
        ("@store(type='rdbms', url='sqlite://', field.length='k=3')", "field.length: 'k=3'", False),
        ("@store(type='rdbms', url='sqlite://', field.length='k:0')", "field.length: 'k:0'", False),
        ("@store(type='rdbms', url='sqlite://', refresh.interval='soon')", "refresh.interval: 'soon'", False),
        ("@store(type='rdbms', url='sqlite://', refresh.interval='2 years')", "refresh.interval: '2 years'", False),
        ("@store(type='rdbms', url='sqlite://', create='maybe')", "create: 'maybe'", False),
    ],
)
def test_a_store_that_cannot_be_is_told(annotation: str, message: str, kept: bool) -> None:
    with pytest.raises(StoreError, match=message) as refused:
        read(annotation)
    assert refused.value.kept_in_memory is kept
    assert refused.value.hint


def test_objects_have_no_column() -> None:
    plan = """
    define stream A (k string, o object);
    @store(type='rdbms', url='sqlite://') define table T (k string, o object);
    from A select k, o insert into T;
    """
    with pytest.raises(StoreError, match="the attribute 'o' is an object"):
        store_of(analyse(parse(plan)).tables["T"])
