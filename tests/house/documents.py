"""Does what a document says, as its reader would.

```python title=FILE      FILE is written
```console                each line after `$ ` is a command; what follows is all it prints (… stands for anything)
```console background     the command stays, as in a terminal of its own; what follows is what it prints first
"""

import re
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from tests.house.environments import Environment

BLOCK = re.compile(r"^```(\w+) ?(.*)\n((?:.*\n)*?)```$", re.MULTILINE)
DEFAULT_PORT = "4222"
PATIENCE_S = 20.0


class Block(NamedTuple):
    language: str
    mark: str
    text: str


def blocks(document: Path) -> list[Block]:
    """The blocks of *document* that its reader acts on."""
    found = [Block(*match.groups()) for match in BLOCK.finditer(document.read_text())]
    return [block for block in found if block.language in {"python", "console"}]


class Reader:
    """Somebody with a fresh environment, an empty folder and as many terminals as it takes."""

    def __init__(self, environment: Environment, folder: Path) -> None:
        self.folder = folder
        self._port = str(_free_port())
        self._variables = {
            **environment.variables(),
            "UNKNOT_PORT": self._port,  # tests run side by side
            "UNKNOT_URL": f"nats://127.0.0.1:{self._port}",
        }
        self._staying: list[subprocess.Popen[bytes]] = []
        (folder / ".venv").symlink_to(environment.bin.parent)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in reversed(self._staying):
            process.terminate()
        for process in reversed(self._staying):
            try:
                process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                raise

    def act_on(self, block: Block) -> None:
        """Write the file or run the commands that *block* says; fail when they print something else."""
        if block.language == "python":
            assert block.mark.startswith("title="), (
                f"a reader does not know where to write this:\n{block.text}"
            )
            (self.folder / block.mark.removeprefix("title=")).write_text(block.text)
        for command, expected in _commands(block):
            if block.mark == "background":
                self._stay(command, expected.replace(DEFAULT_PORT, self._port))
            else:
                printed = self.run(command)
                assert says(expected, printed), f"$ {command}\n{printed}\nbut the document says:\n{expected}"

    def run(self, command: str) -> str:
        """What *command* prints; it must end well, and soon."""
        with subprocess.Popen(
            ["bash", "-c", command],
            cwd=self.folder,
            env=self._variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                printed, complained = process.communicate(timeout=PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                printed, complained = process.communicate()
        assert process.returncode == 0, f"$ {command}\n{printed}{complained}{self._logs()}"
        return printed

    def _stay(self, command: str, expected: str) -> None:
        log = self.folder / f"terminal-{len(self._staying)}.log"
        with log.open("wb") as out, log.with_suffix(".err").open("wb") as err:
            process = subprocess.Popen(
                ["bash", "-c", f"exec {command}"],
                cwd=self.folder,
                env=self._variables,
                stdout=out,
                stderr=err,
            )
        self._staying.append(process)
        give_up_at = time.monotonic() + PATIENCE_S
        while not says(f"{expected}…", log.read_text()):
            in_time = process.poll() is None and time.monotonic() < give_up_at
            assert in_time, f"$ {command}\nis to print:\n{expected}\n{self._logs()}"
            time.sleep(0.02)

    def _logs(self) -> str:
        return "\n".join(
            f"{path.name}:\n{path.read_text()}" for path in sorted(self.folder.glob("terminal-*"))
        )


def _commands(block: Block) -> Iterator[tuple[str, str]]:
    """Each command of a console block, and what the document says that it prints."""
    if block.language == "console":
        for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
            command, _, expected = part.partition("\n")
            yield command, expected.strip()


def says(expected: str, printed: str) -> bool:
    """Whether *printed* is what a document *expected*."""
    pattern = ".*".join(re.escape(part) for part in expected.split("…"))
    return re.fullmatch(pattern, printed.strip(), re.DOTALL) is not None


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
        return port
