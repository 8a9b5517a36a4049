"""The container image is built without a daemon, runs as an ordinary user, and says how healthy it is."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import flights_reference
import pytest
import yaml

from cep_cli.node.config import environment_of, read_node_config

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE = DEPLOY / "compose"
WHOLE = os.environ.get("CEP_IMAGE", "") == "1"
"""`make image-test` builds the image, too, which takes minutes and needs root."""

BUILD_S, DEMO_S = 1_800, 600


def healthcheck(url: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - our own script
        [sys.executable, str(DEPLOY / "healthcheck.py")],
        env={"CEP_HEALTH_URL": url},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


class Answers(BaseHTTPRequestHandler):
    """200 for what is ready, 503 with a reason for what is not."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/ready" else 503)
        self.end_headers()
        self.wfile.write(b'{"reason": "no manager"}')

    def log_message(self, *_: object) -> None:
        pass


def test_the_healthcheck_fails_with_the_reason() -> None:
    server = HTTPServer(("127.0.0.1", 0), Answers)
    Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    assert healthcheck(f"{url}/ready").returncode == 0
    refused = healthcheck(f"{url}/other")
    server.shutdown()
    server.server_close()
    assert (refused.returncode, "no manager" in refused.stderr) == (1, True)
    away = healthcheck(f"{url}/ready")
    assert (away.returncode, url in away.stderr) == (1, True)


def test_what_the_image_is_built_of_is_in_the_build_context() -> None:
    """`.dockerignore` names each package; one that is forgotten would be missing in the image."""
    included = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests"}
    assert packages - included == set()
    for name in ("install.sh", "healthcheck.py"):
        assert (DEPLOY / name).stat().st_mode & stat.S_IXUSR


def test_the_two_nodes_of_compose_start_in_the_order_of_their_health() -> None:
    services = yaml.safe_load((COMPOSE / "compose.yaml").read_text())["services"]
    order = {
        name: {on: how["condition"] for on, how in one.get("depends_on", {}).items()} for name, one in services.items()
    }
    assert order == {
        "prepare": {},
        "database": {"prepare": "service_completed_successfully"},
        "node-1": {"database": "service_healthy"},
        "node-2": {"database": "service_healthy", "node-1": "service_healthy"},
    }
    for name, service in services.items():
        for address in service.get("ports", ()):
            assert address.startswith("127.0.0.1:"), f"{name}: published beyond loopback"
        mounted = [volume.split(":")[0] for volume in service.get("volumes", ())]
        assert all((COMPOSE / path).exists() for path in mounted if path.startswith("."))


@pytest.mark.parametrize("node", ["node-1", "node-2"])
def test_the_configurations_of_compose_are_those_of_two_nodes_that_share_a_database(node: str) -> None:
    config = read_node_config(COMPOSE / f"{node}.yaml")
    assert (config.name, config.host) == (node, node)
    assert config.database() == "postgresql://cep@database:5432/cep"
    worker = environment_of(config, Path("/node"))["worker"]
    assert worker["CEP_WORKER__SECURITY__KEYS"] == "/etc/cep/keys"


def test_secrets_are_made_once_and_are_for_their_owner(tmp_path: Path) -> None:
    secrets, database = tmp_path / "secrets", tmp_path / "database"
    secrets.mkdir()
    database.mkdir()
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "SECRETS": str(secrets), "DATABASE_SECRETS": str(database), "PATH": path}

    def prepare() -> dict[Path, bytes]:
        subprocess.run(["sh", COMPOSE / "prepare.sh"], env=environment, check=True, capture_output=True)  # noqa: S603, S607
        return {one: one.read_bytes() for one in secrets.rglob("*") if one.is_file()}

    made = prepare()
    assert {stat.S_IMODE(one.stat().st_mode) for one in made} == {0o600}
    assert (database / "password").read_text() in (secrets / "pgpass").read_text()
    assert prepare() == made


if WHOLE:

    def run(command: Sequence[str | Path], timeout_s: float = 120) -> str:
        ended = subprocess.run(  # noqa: S603 - the words are ours
            [str(word) for word in command], cwd=ROOT, capture_output=True, text=True, timeout=timeout_s, check=False
        )
        assert ended.returncode == 0, f"{command}: {ended.stdout[-2_000:]}{ended.stderr[-2_000:]}"
        return ended.stdout

    class Buildah:
        """Images in a folder of their own: no daemon, no registry."""

        def __init__(self, folder: Path) -> None:
            store = ("--root", folder / "root", "--runroot", folder / "run", "--storage-driver", "vfs")
            self.command: tuple[str | Path, ...] = ("buildah", *store)

        def __call__(self, *words: str | Path, timeout_s: float = 120) -> str:
            return run((*self.command, *words), timeout_s).strip()

    @pytest.fixture(scope="module")
    def container(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Buildah, str]]:
        if os.geteuid() or not (shutil.which("buildah") and shutil.which("debootstrap")):
            pytest.fail("building the image needs root and: apt-get install buildah crun debootstrap")
        folder = tmp_path_factory.mktemp("images")
        buildah = Buildah(folder)
        run(["debootstrap", "--variant=minbase", "bookworm", folder / "rootfs"], BUILD_S)
        base = buildah("from", "scratch")
        buildah("add", "-q", base, folder / "rootfs", "/", timeout_s=BUILD_S)
        buildah("commit", "-q", base, "base:1", timeout_s=BUILD_S)
        # The index of packages may have a certificate that this host alone knows.
        (folder / "pip.conf").write_text("[global]\ncert = /etc/host-certificates.crt\n")
        files = {
            "/etc/ssl/certs/ca-certificates.crt": "/etc/host-certificates.crt",
            folder / "pip.conf": "/etc/pip.conf",
        }
        volumes = [word for host, image in files.items() for word in ("--volume", f"{host}:{image}:ro")]
        build = ("bud", "--isolation", "chroot", *volumes, "--build-arg", "BASE=localhost/base:1")
        buildah(*build, "-f", DEPLOY / "Dockerfile", "-t", "cep:1", ROOT, timeout_s=BUILD_S)
        made = buildah("from", "cep:1", timeout_s=BUILD_S)
        yield buildah, made
        shutil.rmtree(folder, ignore_errors=True)

    def test_the_image_runs_the_demo_as_an_ordinary_user(container: tuple[Buildah, str]) -> None:
        buildah, made = container
        inside = ("run", "--isolation", "chroot", made, "--")
        assert buildah(*inside, "id", "-u") == "10001"
        assert "Usage" in buildah(*inside, "cep", "--help")
        said = buildah(*inside, "cep", "demo", "--seconds", "2", timeout_s=DEMO_S).splitlines()
        expected = [f"{stream}: {len(rows)} events" for stream, rows in flights_reference.reference().items()]
        assert said[-len(expected) :] == expected
