"""The production web server: httptools on uvloop, or waitress where these are not installed yet."""

from __future__ import annotations

from cep_common.web.wsgi import WsgiApp, is_stopping

try:
    from cep_common.web.loop_server import LoopServer as WebServer
except ModuleNotFoundError:  # an environment from before these were dependencies
    from cep_common.web.waitress_server import WaitressServer as WebServer  # type: ignore[assignment]

__all__ = ["WebServer", "WsgiApp", "is_stopping"]
