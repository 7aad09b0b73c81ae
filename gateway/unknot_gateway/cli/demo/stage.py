"""The processes of the demo, and what is heard from them."""

import asyncio
import contextlib
import json
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final, TypeVar

START_S: Final = 15.0
END_S: Final = 5.0
_STDERR_CHARS: Final = 400
_GATEWAY: Final = "gateway"
_AGENTS: Final = "unknot_gateway.cli.demo.agents"

Found = TypeVar("Found")
Line = dict[str, Any]


class Missing(Exception):
    """A step of the demo did not happen; the text says which."""


class Heard:
    """All lines of all agents, and the notices of the gateway, as they came."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self._news = asyncio.Event()
        self._lost: str | None = None

    def take(self, line: Line) -> None:
        """A line has come."""
        self.lines.append(line)
        self._news.set()

    def lose(self, what: str) -> None:
        """Who would have to speak has ended: whatever is waited for is Missing."""
        self._lost = what
        self._news.set()

    async def until(self, find: Callable[[list[Line]], Found | None], what: str, patience_s: float) -> Found:
        """What *find* finds as soon as it does. Raises Missing after *patience_s*."""
        try:
            async with asyncio.timeout(patience_s):
                while (found := find(self.lines)) is None:
                    if self._lost is not None:
                        raise Missing(self._lost)
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
        process = await self._start(_GATEWAY, "serve", "--port", "0", "--json", "--log-level", "warning")
        assert process.stdout is not None
        try:
            async with asyncio.timeout(START_S):
                ready: Line = json.loads(await process.stdout.readline())
        except (TimeoutError, ValueError):
            raise Missing("a gateway that is ready") from None
        return ready

    async def agent(self, name: str, variable: str, url: str) -> None:
        """`unknot run` of one agent, in a process of its own; step "up" is heard when it serves."""
        process = await self._start(name, "run", f"{_AGENTS}:{variable}", "--nats", url, "--json")
        self._readers.append(asyncio.create_task(self._hear(name, process)))

    async def end(self) -> None:
        """End all processes, the gateway last; nothing is left."""
        for reader in self._readers:
            reader.cancel()
        await asyncio.gather(*self._readers, return_exceptions=True)
        agents = [process for name, process in self._processes.items() if name != _GATEWAY]
        await asyncio.gather(*(_end(process) for process in agents))
        if _GATEWAY in self._processes:
            await _end(self._processes[_GATEWAY])

    async def _start(self, name: str, *arguments: str) -> asyncio.subprocess.Process:
        with (self._folder / name).open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "unknot_gateway",
                *arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
            )
        self._processes[name] = process
        return process

    async def _hear(self, name: str, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            said = json.loads(line)
            if "agents" in said:  # what `unknot run --json` says when its agents serve
                self._heard.take({"agent": said["agents"][0], "step": "up"})
            else:
                self._heard.take(said)
        self._heard.lose(f"{name} alive: its process ended with {await process.wait()}")

    def last_words(self) -> str:
        """What the processes said on stderr before something was missing; mostly the reason."""
        return "".join(self._last_words(name) for name in self._processes)

    def _last_words(self, name: str) -> str:
        said = (self._folder / name).read_text(errors="replace").strip().rpartition("\n")[2]
        return f"\n{name} said: {said[-_STDERR_CHARS:]}" if said else ""


async def _end(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        await asyncio.wait_for(process.wait(), END_S)
    except TimeoutError:
        process.kill()
        await process.wait()


@contextlib.asynccontextmanager
async def stage(heard: Heard) -> AsyncIterator[Stage]:
    """A stage that is empty again at the end of the block, whatever happens in it."""
    with tempfile.TemporaryDirectory(prefix="unknot-demo-") as folder:
        built = Stage(Path(folder), heard)
        try:
            yield built
        except Missing as missing:
            raise Missing(f"{missing}{built.last_words()}") from missing
        finally:
            await built.end()
