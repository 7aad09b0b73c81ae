"""An agent that floods: so many messages a second, or as many as the server takes.

python -m tests.benchmarks.flooder URL NETWORK RATE [USER PASSWORD] [--agent NAME] [--kind KIND]    RATE 0: without end
"""

import argparse
import itertools
import json
import select
import socket
import sys
import time
from urllib.parse import urlsplit

from unknot_schemas import Subjects

AGENT = "flood"
TICK_S = 0.001
TOGETHER = 200
"""Messages of one write without a rate."""


KINDS = {
    "posts": ("send.@floods.flood.wave", b'{"unknot":1,"id":"f%d","data":"one of very many"}'),
    "requests": ("request.answerer.bench.echo", b'{"unknot":1,"id":"f%d","data":"one of very many"}'),
    "heartbeats": ("heartbeat", b'{"session":"f%d","open":[],"held":[]}'),
    "hellos": ("hello", b'{"protocol":1,"session":"a-session-of-a-flood-%d"}'),
    "garbage": ("request.answerer.bench.echo", b'{"unknot":\x00\xff[[[[%d'),
    "nonsense": ("no.such.verb", b"%d"),
    "long": ("send.@floods.flood.wave", b'{"unknot":1,"id":"f%d","data":"' + 20_000 * b"x" + b'"}'),
}
"""What it may be: the subject behind the agent's name, and the body, with a number."""


def main(arguments: list[str]) -> None:
    """Flood until terminated; one line once connected."""
    options = _options(arguments)
    wire = _connected(options.url, options.login)
    rest, body = KINDS[options.kind]
    subject = f"{Subjects(options.network).root}.in.{options.agent}.{rest}".encode()
    numbers = itertools.count()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    per_s, began, sent = options.rate, time.monotonic(), 0
    while True:
        due = TOGETHER if per_s == 0 else int((time.monotonic() - began) * per_s) - sent
        wire.sendall(b"".join(_published(subject, body % next(numbers)) for _ in range(due)))
        sent += due
        if per_s:
            time.sleep(TICK_S)
        if select.select([wire], [], [], 0)[0]:
            said = wire.recv(4096)
            if not said:
                return  # cut off: its user was revoked
            if b"PING" in said:
                wire.sendall(b"PONG\r\n")


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("network")
    parser.add_argument("rate", type=float)
    parser.add_argument("login", nargs="*")
    parser.add_argument("--agent", default=AGENT)
    parser.add_argument("--kind", choices=sorted(KINDS), default="posts")
    return parser.parse_args(arguments)


def _published(subject: bytes, body: bytes) -> bytes:
    return b"PUB %b %d\r\n%b\r\n" % (subject, len(body), body)


def _connected(url: str, login: list[str]) -> socket.socket:
    at = urlsplit(url)
    wire = socket.create_connection((at.hostname, at.port))
    wire.recv(65_536)
    options: dict[str, object] = {"verbose": False, "name": AGENT}
    if login:
        options |= {"user": login[0], "pass": login[1]}
    wire.sendall(f"CONNECT {json.dumps(options)}\r\nPING\r\n".encode())
    return wire


if __name__ == "__main__":
    main(sys.argv[1:])
