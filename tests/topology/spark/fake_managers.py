"""Managers, as a driver's client reaches them."""

from __future__ import annotations

from cep_common.errors import CepError, PeerError
from cep_common.ids import Endpoint
from cep_common.protocol.drivers import DriverRegistered, RegisterDriver


class FakeManagers:
    """Managers that remember each report as long as they `keep` reports; `answer` with a token and a system."""

    def __init__(self) -> None:
        self.keeps = self.answers = True
        self.token, self.system = 0, ""
        self.refusal: CepError | None = None
        self.heard: list[RegisterDriver] = []
        self.left = 0

    def request(self, message: RegisterDriver) -> DriverRegistered:
        self.heard.append(message)
        if self.refusal is not None:
            raise self.refusal
        if not self.answers:
            raise PeerError("no manager answers")
        knows = message.number if self.keeps else 0
        return DriverRegistered(1_000, 3_000, token=self.token, system=self.system, knows=knows)

    def managers(self) -> tuple[Endpoint, ...]:
        return (self.manager(),)

    def manager(self) -> Endpoint:
        return Endpoint("127.0.0.1", 1)

    def leave(self) -> None:
        self.left += 1
