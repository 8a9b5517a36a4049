"""The released Siddhi and what it needs, fetched from Maven Central with the Ivy that ships with PySpark."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

VERSION = "5.1.30"

_ARTIFACTS = (
    *((("io.siddhi", name, VERSION)) for name in ("siddhi-core", "siddhi-query-api", "siddhi-query-compiler")),
    ("io.siddhi", "siddhi-annotations", VERSION),
    ("io.siddhi.extension.execution.string", "siddhi-execution-string", "5.0.5"),
    ("io.siddhi.extension.execution.math", "siddhi-execution-math", "5.0.4"),
    ("io.siddhi.extension.execution.time", "siddhi-execution-time", "5.0.3"),
    ("io.siddhi.extension.execution.regex", "siddhi-execution-regex", "5.0.5"),
    ("io.siddhi.extension.execution.reorder", "siddhi-execution-reorder", "5.0.3"),
    ("io.siddhi.extension.execution.list", "siddhi-execution-list", "1.0.0"),
    ("io.siddhi.extension.execution.map", "siddhi-execution-map", "5.0.4"),
    ("com.lmax", "disruptor", "3.4.2"),
    ("org.antlr", "antlr4-runtime", "4.11.1"),
    ("org.atteo.classindex", "classindex", "3.9"),
    ("org.mvel", "mvel2", "2.2.8.Final"),
    ("com.google.guava", "guava", "30.1-jre"),
    ("com.google.code.gson", "gson", "2.9.1"),
    ("org.quartz-scheduler", "quartz", "2.3.2"),
    ("io.dropwizard.metrics", "metrics-core", "3.1.2"),
    ("com.jayway.jsonpath", "json-path", "2.4.0"),
    ("org.yaml", "snakeyaml", "1.33"),
    ("org.apache.logging.log4j", "log4j-core", "2.22.1"),
    ("org.apache.logging.log4j", "log4j-api", "2.22.1"),
    ("ch.qos.reload4j", "reload4j", "1.2.25"),
    ("org.osgi", "org.osgi.core", "6.0.0"),
    ("org.slf4j", "slf4j-api", "1.7.36"),
    ("javax.annotation", "javax.annotation-api", "1.3.2"),
    ("javax.xml.bind", "jaxb-api", "2.3.1"),
)
"""Without what they depend on in turn: some of that is not on Maven Central, and none of it is used."""

_COMPILER = ("org.eclipse.jdt", "ecj", "3.33.0")
"""A Java compiler that runs on a JRE, so that no JDK is needed."""
_CHECKSUMS = Path(__file__).with_name("siddhi_jars.sha256")


def cache_folder() -> Path:
    """Return the folder that holds the jars and the compiled drivers."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "cep-on-spark" / f"siddhi-{VERSION}"


def fetch_jars() -> Path:
    """Return the folder with all jars. They are fetched the first time and checked against `siddhi_jars.sha256`.

    Raises:
        RuntimeError: Maven Central could not be reached, an artifact is missing, or a jar is another one than expected.
    """
    return _fetch("jars", _ARTIFACTS)


def compile_driver(sources: Path, jars: Path) -> Path:
    """Return the folder with the classes of the Java files in `sources`; they are compiled when one has changed.

    Raises:
        RuntimeError: the compiler could not be fetched, or it complains.
    """
    files = sorted(sources.glob("*.java"))
    classes = cache_folder() / f"classes-{_digest(*(file.read_bytes() for file in files))}"
    if classes.is_dir():
        return classes
    compiler = _fetch("compiler", (_COMPILER,))
    with tempfile.TemporaryDirectory(dir=cache_folder()) as made:
        command = ["java", "-cp", f"{compiler}/*", "org.eclipse.jdt.internal.compiler.batch.Main"]
        built = Path(made) / "classes"
        command += ["-17", "-nowarn", "-proc:none", "-cp", ":".join(map(str, jars.glob("*.jar"))), "-d", str(built)]
        done = _run([*command, *map(str, files)])
        if done.returncode:
            raise RuntimeError(f"the driver of Siddhi does not compile:\n{done.stderr}")
        return _keep(built, classes)


def _fetch(name: str, artifacts: Sequence[tuple[str, str, str]]) -> Path:
    """Return the folder that holds `artifacts` alone; its name has their digest, so that each list has its own."""
    listed = "\n".join(":".join(artifact) for artifact in artifacts)
    folder = cache_folder() / f"{name}-{_digest(listed.encode())}"
    if folder.is_dir():
        return folder
    cache_folder().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache_folder()) as made:
        module = Path(made) / "ivy.xml"
        module.write_text(_ivy_module(artifacts), encoding="utf-8")
        jars = Path(made) / "jars"
        command = ["java", "-jar", str(_ivy()), "-cache", str(Path(made) / "ivy"), "-ivy", str(module)]
        done = _run([*command, "-retrieve", f"{jars}/[artifact]-[revision].[ext]"])
        if done.returncode or len(list(jars.glob("*.jar"))) != len(artifacts):
            raise RuntimeError(f"Siddhi {VERSION} could not be fetched from Maven Central:\n{done.stdout[-3000:]}")
        _check(jars)
        return _keep(jars, folder)


def _check(jars: Path) -> None:
    expected = {name: digest for digest, name in (line.split() for line in _CHECKSUMS.read_text().splitlines())}
    for jar in jars.glob("*.jar"):
        found = hashlib.sha256(jar.read_bytes()).hexdigest()
        if found != expected.get(jar.name):
            raise RuntimeError(f"{jar.name} has SHA-256 {found}, not the one in {_CHECKSUMS}: not used")


def _keep(made: Path, folder: Path) -> Path:
    """Give the finished folder `made` its name, unless another process was faster."""
    try:
        made.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise
    return folder


def _digest(*parts: bytes) -> str:
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:12]


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own command


def _ivy() -> Path:
    spec = importlib.util.find_spec("pyspark")
    folder = Path(spec.origin).parent / "jars" if spec is not None and spec.origin else Path()
    found = sorted(folder.glob("ivy-*.jar"))
    if not found:
        raise RuntimeError("PySpark, whose Ivy fetches Siddhi, is not installed")
    return found[-1]


def _ivy_module(artifacts: Sequence[tuple[str, str, str]]) -> str:
    dependencies = "".join(
        f'<dependency org="{group}" name="{name}" rev="{version}" transitive="false" conf="default->master"/>'
        for group, name, version in artifacts
    )
    return (
        '<ivy-module version="2.0"><info organisation="cep-on-spark" module="siddhi-peer"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>"
    )
