"""The plan page in a real browser: the graph is drawn and its numbers move. Skipped where no Chromium is installed."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from free_ports import free_port
from manager_world import FakeView, World

from cep_common.security.config import ServerSecurity
from cep_common.web_server import WebServer
from cep_manager.config import HttpConfig
from cep_manager.web import create_app

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--virtual-time-budget=3000",
)

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine"),
]


@pytest.fixture
def address() -> Iterator[str]:
    world = World()
    world.active(events=12_345)
    config = HttpConfig(port=free_port())
    server = WebServer(
        create_app(FakeView(world), 1_000), config.host, config.port, config.threads, 1_000, ServerSecurity(), "a test"
    )
    server.start()
    yield f"http://127.0.0.1:{config.port}"
    server.stop()


def dumped(address: str, profile: Path) -> str:
    """The page's document after its scripts have run for three virtual seconds."""
    command = [str(CHROMIUM), *FLAGS, f"--user-data-dir={profile}", "--dump-dom", address]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout  # noqa: S603


def test_times_are_shown_in_the_readers_own_zone(address: str, tmp_path: Path) -> None:
    page = dumped(f"{address}/cluster", tmp_path)
    assert re.search(r'<time datetime="2026-01-01T00:00:00Z" title="2026-01-01 00:00:00 UTC">', page)
