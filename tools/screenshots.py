"""Take the screenshots of the console in the documents, from a running system with the flights sample and real events.

    .venv/bin/python tools/screenshots.py [docs/images]

Needs Chromium, and some two minutes. Every picture is of what the system shows at that moment; nothing is made up.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "cep_manager"))

import click  # noqa: E402
from browser import Browser  # noqa: E402 - of the tests, which are not installed

from cep_cli.system.demo import Demo, DemoSample  # noqa: E402
from cep_cli.system.local_system import OWN_TOKEN, LocalSystem, Ports  # noqa: E402
from cep_common.clock import SystemClock  # noqa: E402
from cep_common.security.access import AccessRole  # noqa: E402
from cep_common.security.tokens import TokenFile  # noqa: E402
from cep_manager.authoring.samples import samples  # noqa: E402

FEED_S = 150.0
WARM_UP_S = 25.0
"""Rates and small lines say something after so long."""
SETTLE_S = 1.5
WIDTH, HEIGHT = 1360, 850
PASSWORD = "six foxes took the late flight"  # noqa: S105 - of a system that lives for two minutes
PLAN = "KnockOnDelays"

WITHOUT_MORE = {
    "plan": f"/plans/{PLAN}",
    "stage": f"/plans/{PLAN}/components/aircraft",
    "simulator": "/events/imported/Departures:1.0.0",
    "event-flow": "/event-flow",
    "cluster": "/cluster",
    "worker": "/workers/worker-1",
    "checkpoints": "/checkpoints",
    "logs": "/logs",
    "audit": "/audit",
    "plans": "/plans",
    "overview": "/",
}
"""Pages whose picture is taken as soon as they are there, by the picture's name."""
DARK_TOO = ("overview",)


def main() -> int:
    """Take all screenshots into the folder."""
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images"
    with tempfile.TemporaryDirectory(prefix="cep-pictures-") as folder:
        said: list[str] = []
        with LocalSystem(Path(folder), Ports.free(), say=said.append, login=True) as system:
            _take_all(system, "\n".join(said), target)
    return 0


def _take_all(system: LocalSystem, welcome: str, target: Path) -> None:
    file = TokenFile(system.folder / OWN_TOKEN)
    system.token = file.create("pictures", AccessRole.ADMIN, None, SystemClock().now_ms())
    for begun in samples()[:2]:
        system.client.deploy(begun.text, replace=False)
    system.client.act("LargeOrders", "deactivate")
    demo = Demo(system, DemoSample(ROOT / "samples" / "flights"), FEED_S)
    feeding = threading.Thread(target=demo.run)
    feeding.start()
    browser = Browser(Path(tempfile.mkdtemp(prefix="cep-profile-")))
    try:
        browser.call(
            "Emulation.setDeviceMetricsOverride", width=WIDTH, height=HEIGHT, deviceScaleFactor=1, mobile=False
        )
        camera = _Camera(browser, system.client.url, target)
        camera.log_in(re.findall(r"password  (\S+)", welcome)[0])
        time.sleep(WARM_UP_S)
        for name, path in WITHOUT_MORE.items():
            camera.page(name, path)
        camera.in_the_dark()
        camera.editor()
        click.echo(f"{len(list(target.glob('console-*.png')))} pictures in {target}")
    finally:
        browser.close()
        feeding.join()


class _Camera:
    """Goes through the console and takes pictures."""

    def __init__(self, browser: Browser, url: str, target: Path) -> None:
        self._browser = browser
        self._url = url
        self._target = target

    def log_in(self, password: str) -> None:
        """Log in as the first admin, with a new password."""
        self._browser.open(f"{self._url}/login")
        self._fill(name="admin", password=password)
        self._submit(".ask-in .primary", "document.getElementById('chosen') !== null")
        self._fill(former=password, chosen=PASSWORD, again=PASSWORD)
        self._submit(".ask-in .primary", "document.querySelector('nav.side') !== null")

    def page(self, name: str, path: str) -> None:
        """Take a screenshot of the page at `path` into `console-NAME.png`."""
        self._browser.open(f"{self._url}{path}")
        self._browser.until("document.querySelector('.loading') === null")
        self._picture(name)

    def in_the_dark(self) -> None:
        """Take some pages again in the dark theme."""
        self._scheme("dark")
        for name in DARK_TOO:
            self.page(f"{name}-dark", WITHOUT_MORE[name])
        self._scheme("light")

    def editor(self) -> None:
        """Show an error in the editor, fix it, and try the plan out on generated events."""
        self._browser.open(f"{self._url}/deploy?sample=pattern")
        inside = "document.getElementById('editor').shadowRoot"
        content = f"{inside}?.querySelector('.cm-content')"
        self._browser.until(f"Boolean({content})")
        self._browser.evaluate(f"{content}.focus()")
        self._browser.press("a", 65, control=True)
        mistaken = json.dumps(samples()[2].text.replace("=Payments ->", "=Payment ->"))
        self._browser.evaluate(
            f"(() => {{ const clipboardData = new DataTransfer(); clipboardData.setData('text/plain', {mistaken});"
            f"{content}.dispatchEvent(new ClipboardEvent('paste', {{ clipboardData, bubbles: true }})) }})()"
        )
        self._browser.until(f"{inside}.querySelector('.cm-lintRange-error') !== null")
        self._picture("editor")
        self._browser.open(f"{self._url}/deploy?sample=pattern")
        self._browser.until(f"Boolean({content}) && document.getElementById('verdict').textContent !== ''")
        self._browser.evaluate("document.getElementById('tab-try').click()")
        self._browser.until("document.querySelector('#try-stream option') !== null")
        self._browser.evaluate("document.getElementById('try-generate').click()")
        self._browser.evaluate("document.getElementById('try-run').click()")
        self._browser.until("document.querySelector('#try-results .result') !== null", within_s=60.0)
        self._browser.evaluate("document.getElementById('tabs').scrollIntoView()")
        self._picture("try")

    def _fill(self, **fields: str) -> None:
        for name, text in fields.items():
            self._browser.evaluate(f"document.getElementById('{name}').focus()")
            self._browser.type(text)

    def _submit(self, button: str, done: str) -> None:
        self._browser.evaluate(f"document.querySelector('{button}').click()")
        self._browser.until(done)

    def _scheme(self, scheme: str) -> None:
        self._browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def _picture(self, name: str) -> None:
        time.sleep(SETTLE_S)
        self._browser.picture(self._target / f"console-{name}.png")


if __name__ == "__main__":
    sys.exit(main())
