"""An agent that floods: one-way events for a channel, so many a second, or as many as the server takes.

python -m tests.benchmarks.flooder URL NETWORK RATE [USER PASSWORD]        RATE 0: without end
"""

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


def main(arguments: list[str]) -> None:
    """Flood until terminated; one line once connected."""
    url, network, rate, *login = arguments
    wire = _connected(url, login)
    subject = Subjects(network).event(AGENT, "send", "@floods", "flood.wave")
    numbers = itertools.count()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    per_s, began, sent = float(rate), time.monotonic(), 0
    while True:
        due = TOGETHER if per_s == 0 else int((time.monotonic() - began) * per_s) - sent
        wire.sendall(b"".join(_event(subject, next(numbers)) for _ in range(due)))
        sent += due
        if per_s:
            time.sleep(TICK_S)
        if select.select([wire], [], [], 0)[0]:
            said = wire.recv(4096)
            if not said:
                return  # cut off: its user was revoked
            if b"PING" in said:
                wire.sendall(b"PONG\r\n")


def _connected(url: str, login: list[str]) -> socket.socket:
    at = urlsplit(url)
    wire = socket.create_connection((at.hostname, at.port))
    wire.recv(65_536)
    options: dict[str, object] = {"verbose": False, "name": AGENT}
    if login:
        options |= {"user": login[0], "pass": login[1]}
    wire.sendall(f"CONNECT {json.dumps(options)}\r\nPING\r\n".encode())
    return wire


def _event(subject: str, number: int) -> bytes:
    body = b'{"unknot":1,"id":"f%d","data":"one of very many"}' % number
    return b"PUB %b %d\r\n%b\r\n" % (subject.encode(), len(body), body)


if __name__ == "__main__":
    main(sys.argv[1:])
