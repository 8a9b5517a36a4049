"""A Chromium that tests drive: over its debugging pipe, so that no driver program and no port is needed."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
NEEDS_CHROMIUM = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1360,1000",
)

HUNG_S = 120
"""A browser that says nothing for so long hangs. A large page takes it half a minute beside other work."""


class LeftError(Exception):
    """The page was left while it was asked."""


class Browser:
    """One page of a fresh browser. `problems` collects what its console warned of and errors of scripts."""

    def __init__(self, profile: Path) -> None:
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        # The browser reads its commands from descriptor 3 and writes answers to 4.
        flags = f"{' '.join(FLAGS)} --remote-debugging-pipe --user-data-dir={profile}"
        self._process = subprocess.Popen(  # noqa: S603 - our own words
            ["/bin/bash", "-c", f"exec {CHROMIUM} {flags} 3<&{to_browser} 4>&{from_browser}"],
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._received = b""
        self._number = 0
        self._session = ""
        self.problems: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        """The browser has ended."""
        self._process.terminate()
        self._process.wait(timeout=20)
        os.close(self._write)
        os.close(self._read)

    def call(self, method: str, **arguments: Any) -> Any:
        """What the browser answers to a command of its debugging protocol."""
        number = self._send(method, arguments)
        while True:
            message = self._receive()
            if message.get("id") == number:
                if "navigated" in message.get("error", {}).get("message", ""):
                    raise LeftError(method)
                assert "error" not in message, f"{method}: {message['error']}"
                return message["result"]
            self._notice(message)

    def open(self, address: str) -> None:
        """The page at `address` is there, and its scripts have begun."""
        self.call("Page.navigate", url=address)
        self.until("document.readyState === 'complete'")

    def evaluate(self, script: str) -> Any:
        """The value of a JavaScript expression in the page; promises are waited for."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, f"{script}: {answer['exceptionDetails']}"
        return answer["result"].get("value")

    def until(self, condition: str, within_s: float = 15.0) -> Any:
        """The value of `condition` as soon as it is true, on this page or the one that it leads to.

        A page is asked once its document is read: before, it may have no body yet.
        """
        deadline = time.monotonic() + within_s
        while True:
            try:
                if value := self.evaluate(f"document.readyState !== 'loading' && ({condition})"):
                    return value
                self.evaluate("new Promise((resolve) => setTimeout(resolve, 30))")
            except LeftError:
                continue
            finally:
                assert time.monotonic() < deadline, f"not within {within_s} s: {condition}; {self.problems}"

    def type(self, text: str) -> None:
        """`text` is written where the focus is."""
        for character in text:
            if character == "\n":
                self.press("Enter", 13, "\r")
            else:
                self.call("Input.dispatchKeyEvent", type="char", text=character)

    def press(self, key: str, code: int, text: str = "", control: bool = False) -> None:
        """A key is pressed and let go."""
        settings = {"key": key, "code": key, "windowsVirtualKeyCode": code, "modifiers": 2 if control else 0}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **settings)
        self.call("Input.dispatchKeyEvent", type="keyUp", **settings)

    def picture(self, path: Path) -> None:
        """A screenshot of the window is in the file `path`."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    def _send(self, method: str, arguments: dict[str, Any]) -> int:
        self._number += 1
        command = {"id": self._number, "method": method, "params": arguments}
        if self._session:
            command["sessionId"] = self._session
        os.write(self._write, json.dumps(command).encode() + b"\0")
        return self._number

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._received:
            ready, _, _ = select.select([self._read], [], [], HUNG_S)
            assert ready, "the browser does not answer"
            more = os.read(self._read, 1 << 20)
            assert more, "the browser has ended"
            self._received += more
        text, _, self._received = self._received.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        return message

    def _notice(self, message: dict[str, Any]) -> None:
        match message.get("method"):
            case "Page.javascriptDialogOpening":  # the page asks whether to leave it
                self._send("Page.handleJavaScriptDialog", {"accept": True})
            case "Runtime.exceptionThrown":
                self.problems.append(json.dumps(message["params"]["exceptionDetails"])[:500])
            case "Log.entryAdded" if message["params"]["entry"]["level"] in ("error", "warning"):
                self.problems.append(message["params"]["entry"]["text"])
            case "Runtime.consoleAPICalled" if message["params"]["type"] in ("error", "warning"):
                self.problems.append(str([one.get("value") for one in message["params"]["args"]]))
