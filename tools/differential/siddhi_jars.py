"""The released Siddhi and what it needs, fetched from Maven Central with the Ivy that ships with PySpark."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
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
    ("org.osgi", "org.osgi.core", "6.0.0"),
    ("org.slf4j", "slf4j-api", "1.7.36"),
    ("javax.annotation", "javax.annotation-api", "1.3.2"),
    ("javax.xml.bind", "jaxb-api", "2.3.1"),
)
"""Without what they depend on in turn: some of that is not on Maven Central, and none of it is used."""

_JAVA = Path(__file__).parent / "java"


def cache_folder() -> Path:
    """Return the folder that holds the jars and the compiled driver."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "cep-on-spark" / f"siddhi-{VERSION}"


def fetch_jars() -> Path:
    """Return the folder with all jars; they are fetched the first time.

    Raises:
        RuntimeError: Maven Central could not be reached, or an artifact is missing.
    """
    folder = cache_folder()
    jars = folder / "jars"
    wanted = "\n".join(":".join(artifact) for artifact in _ARTIFACTS)
    listed = jars / "fetched.txt"
    if listed.is_file() and listed.read_text(encoding="utf-8") == wanted:
        return jars
    shutil.rmtree(jars, ignore_errors=True)
    jars.mkdir(parents=True)
    module = folder / "ivy.xml"
    module.write_text(_ivy_module(), encoding="utf-8")
    pattern = f"{jars}/[artifact]-[revision].[ext]"
    command = ["java", "-jar", str(_ivy()), "-cache", str(folder / "ivy"), "-ivy", str(module), "-retrieve", pattern]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own command
    if done.returncode or len(list(jars.glob("*.jar"))) != len(_ARTIFACTS):
        raise RuntimeError(f"Siddhi {VERSION} could not be fetched from Maven Central:\n{done.stdout[-3000:]}")
    listed.write_text(wanted, encoding="utf-8")
    return jars


def compile_driver(jars: Path) -> Path:
    """Return the folder with the driver's classes, compiled anew when a source file is newer.

    Raises:
        RuntimeError: there is no Java compiler, or it complains.
    """
    classes = cache_folder() / "classes"
    sources = sorted(_JAVA.glob("*.java"))
    built = classes / "SiddhiDriver.class"
    if built.is_file() and built.stat().st_mtime > max(source.stat().st_mtime for source in sources):
        return classes
    if shutil.which("javac") is None:
        raise RuntimeError(
            "comparing with Siddhi needs a Java compiler (Debian: apt-get install openjdk-17-jdk-headless)"
        )
    shutil.rmtree(classes, ignore_errors=True)
    classes.mkdir(parents=True)
    command = ["javac", "-proc:none", "-nowarn", "-cp", f"{jars}/*", "-d", str(classes), *map(str, sources)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own command
    if done.returncode:
        raise RuntimeError(f"the driver of Siddhi does not compile:\n{done.stderr}")
    return classes


def _ivy() -> Path:
    spec = importlib.util.find_spec("pyspark")
    folder = Path(spec.origin).parent / "jars" if spec is not None and spec.origin else Path()
    found = sorted(folder.glob("ivy-*.jar"))
    if not found:
        raise RuntimeError("PySpark, whose Ivy fetches Siddhi, is not installed")
    return found[-1]


def _ivy_module() -> str:
    dependencies = "".join(
        f'<dependency org="{group}" name="{name}" rev="{version}" transitive="false" conf="default->master"/>'
        for group, name, version in _ARTIFACTS
    )
    return (
        '<ivy-module version="2.0"><info organisation="cep-on-spark" module="siddhi-peer"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>"
    )
