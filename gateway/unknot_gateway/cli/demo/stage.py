"""The processes of the demo, and what is heard from them."""

import asyncio
import contextlib
import json
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final, TypeVar

START_S: Final = 15.0
END_S: Final = 5.0
_STDERR_CHARS: Final = 2_000

Found = TypeVar("Found")
Line = dict[str, Any]


class Missing(Exception):
    """A step of the demo did not happen; the text says which."""


class Heard:
    """All lines of all agents, and the notices of the gateway, as they came."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self._news = asyncio.Event()

    def take(self, line: Line) -> None:
        """A line has come."""
        self.lines.append(line)
        self._news.set()

    async def until(self, find: Callable[[list[Line]], Found | None], what: str, patience_s: float) -> Found:
        """What *find* finds as soon as it does. Raises Missing after *patience_s*."""
        try:
            async with asyncio.timeout(patience_s):
                while (found := find(self.lines)) is None:
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise Missing(f"{what} (waited {patience_s:g} s)") from None
        return found


class Stage:
    """Starts processes and hears their stdout; ends what is left at its end."""

    def __init__(self, folder: Path, heard: Heard) -> None:
        self._folder = folder
        self._heard = heard
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self._readers: list[asyncio.Task[None]] = []

    async def gateway(self) -> Line:
        """`unknot serve` with an embedded server on a free port: what it says when ready."""
        process = await self._start("gateway", "serve", "--port", "0", "--json", "--log-level", "warning")
        assert process.stdout is not None
        try:
            async with asyncio.timeout(START_S):
                ready: Line = json.loads(await process.stdout.readline())
        except (TimeoutError, ValueError):
            raise Missing(f"a gateway that is ready{self._last_words('gateway')}") from None
        return ready

    async def agent(self, name: str, variable: str, url: str) -> None:
        """`unknot run` of one agent, in a process of its own."""
        module = "unknot_gateway.cli.demo.agents"
        process = await self._start(name, "run", f"{module}:{variable}", environment={"UNKNOT_URL": url})
        self._readers.append(asyncio.create_task(self._hear(process)))

    def all_live(self) -> None:
        """Raises Missing if a process has ended."""
        for name, process in self._processes.items():
            if process.returncode is not None:
                raise Missing(f"{name}: its process ended with {process.returncode}{self._last_words(name)}")

    async def end(self) -> None:
        """End all processes, agents first; nothing is left."""
        for process in reversed(self._processes.values()):
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            try:
                await asyncio.wait_for(process.wait(), END_S)
            except TimeoutError:
                process.kill()
                await process.wait()
        for reader in self._readers:
            reader.cancel()
        await asyncio.gather(*self._readers, return_exceptions=True)

    async def _start(
        self, name: str, *arguments: str, environment: dict[str, str] | None = None
    ) -> asyncio.subprocess.Process:
        with (self._folder / name).open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "unknot_gateway",
                *arguments,
                env=os.environ | (environment or {}),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
            )
        self._processes[name] = process
        return process

    async def _hear(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            with contextlib.suppress(ValueError):  # what is no JSON is not for us
                said = json.loads(line)
                if isinstance(said, dict) and "at" in said:
                    self._heard.take(said)

    def _last_words(self, name: str) -> str:
        said = (self._folder / name).read_text(errors="replace")[-_STDERR_CHARS:].strip()
        return f"; it said:\n{said}" if said else ""


@contextlib.asynccontextmanager
async def stage(heard: Heard) -> AsyncIterator[Stage]:
    """A stage that is empty again at the end of the block, whatever happens in it."""
    with tempfile.TemporaryDirectory(prefix="unknot-demo-") as folder:
        built = Stage(Path(folder), heard)
        try:
            yield built
        finally:
            await built.end()
