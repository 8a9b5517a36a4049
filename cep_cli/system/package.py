"""`cep package-dependencies`: create an archive of packages for executors that do not have them.

    bin/python      runs the executor's own Python with lib/ first in its path
    lib/            the packages that stages run, their libraries, and the extensions installed here

It does not contain pyspark and py4j, which Spark provides. It contains the engine's compiled machine code, which is
used on equal processors; this requires that files keep their exact times.
"""

from __future__ import annotations

import re
import sys
import tarfile
import tomllib
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import click

from cep_cli.errors import with_readable_errors
from cep_common.errors import CepError
from siddhi.plugins.extension import ENTRY_POINTS

PROJECT = "cep-on-spark"
PACKAGES = ("siddhi", "query_plan", "topology", "cep_common")
"""The packages of the project that run in executors."""
BROUGHT_BY_SPARK = ("pyspark", "py4j")
EXTRAS = ("javascript", "postgresql")
"""The optional extras of the project, which are included if installed."""
COMPRESSION = 1
"""gzip's fastest level, since machine code does not compress much better at higher ones."""

PYTHON = f"""\
#!/bin/sh
# The executor's Python with the packages of this archive. CEP_PYTHON names another one of the same version.
here=$(cd "$(dirname "$0")/.." && pwd)
PYTHONPATH="$here/lib${{PYTHONPATH:+:$PYTHONPATH}}"
export PYTHONPATH
exec "${{CEP_PYTHON:-python{sys.version_info.major}.{sys.version_info.minor}}}" "$@"
"""

Entry = tuple[Path, str]
"""A file, and its path below `lib/`."""


class Required(NamedTuple):
    """A distribution by its normal name, with these of its extras."""

    name: str
    extras: tuple[str, ...] = ()


class PackagingError(CepError):
    """The archive cannot be created from the installed packages."""

    code = "packaging"


@click.command("package-dependencies")
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("cep-environment.tar.gz"),
    show_default=True,
    help="Path of the archive to write.",
)
@with_readable_errors
def package_command(output: Path) -> None:
    """Write an archive for executors that have this version of Python, but not the packages."""
    with click.progressbar(length=1, label="packing", file=sys.stderr) as bar:

        def progress(done: int, total: int) -> None:
            bar.length = total
            bar.update(done - bar.pos)

        files = write_archive(output, progress)
    click.echo(f"{output}: {files} files, {output.stat().st_size / 2**20:.0f} MiB")
    click.echo("Give drivers these settings (docs/clusters.md):", err=True)
    click.echo(f"  CEP_DRIVER__SPARK__CONF={{spark.archives: {output.resolve()}#environment}}", err=True)
    click.echo("  PYSPARK_PYTHON=./environment/bin/python", err=True)


def write_archive(output: Path, progress: Callable[[int, int], None] = lambda _done, _total: None) -> int:
    """Write the archive to `output` and return the number of files in it.

    `progress` gets the number of files written and the total.

    Raises PackagingError when a library is missing here.
    """
    entries = sorted({target: file for file, target in _entries()}.items())
    partial = output.with_name(f"{output.name}.partial")
    with tarfile.open(partial, "w:gz", format=tarfile.PAX_FORMAT, compresslevel=COMPRESSION) as archive:
        _add_python(archive)
        for done, (target, file) in enumerate(entries, 1):
            archive.add(file, f"lib/{target}", recursive=False)
            progress(done, len(entries))
    partial.replace(output)
    return len(entries) + 1


def _add_python(archive: tarfile.TarFile) -> None:
    body = PYTHON.encode()
    member = tarfile.TarInfo("bin/python")
    member.size, member.mode = len(body), 0o755
    archive.addfile(member, BytesIO(body))


def _entries() -> Iterator[Entry]:
    for package in PACKAGES:
        root = _folder_of(package)
        yield from ((file, str(file.relative_to(root.parent))) for file in root.rglob("*") if file.is_file())
    for name in sorted(libraries()):
        yield from _files_of(name)


def _folder_of(package: str) -> Path:
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise PackagingError(f"the package {package} is not installed here; run `make` first")
    return Path(spec.origin).parent


def libraries() -> set[str]:
    """Return the distributions that the project and the installed extensions need, directly or not, by normal name."""
    extensions = (point.dist for point in metadata.entry_points(group=ENTRY_POINTS))
    waiting = [*_requirements_of_project(), *(Required(_normal(one.name)) for one in extensions if one is not None)]
    found: set[Required] = set()
    while waiting:
        wanted = waiting.pop()
        if wanted in found or wanted.name in BROUGHT_BY_SPARK or wanted.name == PROJECT:
            continue
        found.add(wanted)
        waiting += _required(_distribution(wanted.name).requires or (), wanted.extras)
    return {one.name for one in found}


def _requirements_of_project() -> list[Required]:
    """Read `pyproject.toml` if the project runs from its sources, which may be newer than the installed metadata."""
    source = _folder_of(PACKAGES[0]).parent / "pyproject.toml"
    if not source.exists():
        return _required(_distribution(PROJECT).requires or (), EXTRAS)
    project = tomllib.loads(source.read_text(encoding="utf-8"))["project"]
    optional = project["optional-dependencies"]
    extra_ones = [f'{one}; extra == "{extra}"' for extra in EXTRAS for one in optional[extra]]
    return _required([*project["dependencies"], *extra_ones], EXTRAS)


def _required(requirements: Sequence[str], extras: Sequence[str]) -> list[Required]:
    """Return the required distributions in `requirements`.

    Conditional requirements are included if they are installed, those of an extra only for `extras`.
    """
    wanted = []
    for requirement in requirements:
        text, _, condition = requirement.partition(";")
        name, *inner = re.findall(r"[A-Za-z0-9._-]+", re.split(r"[<>=!~(@\s]", text.strip(), maxsplit=1)[0])
        asked_for = "extra" not in condition or any(f'extra == "{extra}"' in condition for extra in extras)
        if asked_for and (not condition or _is_installed(name)):
            wanted.append(Required(_normal(name), tuple(inner)))
    return wanted


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _is_installed(name: str) -> bool:
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def _distribution(name: str) -> metadata.Distribution:
    try:
        return metadata.distribution(name)
    except metadata.PackageNotFoundError as error:
        raise PackagingError(f"the library {name} is not installed here; run `make` first") from error


def _files_of(name: str) -> Iterator[Entry]:
    """Yield the files of a distribution below site-packages; stages do not need others."""
    distribution = _distribution(name)
    if distribution.files is None:
        raise PackagingError(f"the library {name} does not say which files it consists of; install it with pip")
    for file in distribution.files:
        located = Path(str(distribution.locate_file(file)))
        if ".." not in file.parts and not file.is_absolute() and located.is_file():
            yield located, str(file)
