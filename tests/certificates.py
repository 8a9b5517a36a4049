"""Certificates of the tests' own servers."""

from __future__ import annotations

import subprocess
from pathlib import Path


def certificate_for_loopback(folder: Path) -> tuple[str, str]:
    """The file of a certificate for 127.0.0.1, which signs itself, and that of its key."""
    files = str(folder / "server.pem"), str(folder / "server.key")
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
               "-days", "2", "-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1",
               "-out", files[0], "-keyout", files[1]]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)  # noqa: S603 - our own command
    return files
