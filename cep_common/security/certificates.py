"""The certificate of a server, which is reloaded when its files change."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path

from cep_common.errors import ConfigError

logger = logging.getLogger(__name__)


class Certificate:
    """A certificate (chain) and its key in PEM files."""

    def __init__(self, certificate: str, key: str) -> None:
        """Read the files.

        Raises:
            ConfigError: they cannot be used.
        """
        self._files = (certificate, key)
        self.context = tls_context(certificate, key)
        self._seen = self._look()

    def refresh(self) -> None:
        """Read the files again if they have changed; existing connections are not affected.

        Files that cannot be used, such as half of a new pair, leave the previous certificate in use.
        """
        seen = self._look()
        if seen == self._seen:
            return
        self._seen = seen
        try:
            self.context = tls_context(*self._files)
        except ConfigError as error:
            logger.error("the former certificate stays in use: %s", error.message)  # noqa: TRY400 - it says why
        else:
            logger.info("certificate read again: file=%s", self._files[0])

    def _look(self) -> tuple[tuple[int, int, int] | None, ...]:
        return tuple(_identity(Path(file)) for file in self._files)


def _identity(file: Path) -> tuple[int, int, int] | None:
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def tls_context(certificate: str, key: str) -> ssl.SSLContext:
    """Return a context for TLS 1.2 or later with the certificate (chain) and key in those PEM files.

    Raises:
        ConfigError: they cannot be used; it names them.
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, key)
    except OSError as error:  # ssl.SSLError is one
        raise ConfigError(f"security.certificate: {certificate} with {key} cannot be used: {error}") from error
    return context
