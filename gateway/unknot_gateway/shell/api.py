"""The api: queries and operators' verbs as a NATS micro service. A thin front of the kernel, without own logic."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from functools import partial
from importlib.metadata import version
from typing import Any, Final, Literal, cast

import msgspec
import nats.errors
from msgspec import Struct
from nats.aio.client import Client
from nats.micro import add_service
from nats.micro.request import Request
from nats.micro.service import EndpointConfig, Service, ServiceConfig

from unknot_gateway.core import query
from unknot_gateway.core.facts import ApprovalDecided
from unknot_gateway.core.kernel import Kernel
from unknot_gateway.shell.bus import NatsBus
from unknot_gateway.shell.limits import ANOTHER_S, DRAIN_S, ROWS_DEFAULT, ROWS_MAX
from unknot_gateway.shell.loop import ASKED_HERE, Owner
from unknot_schemas.subjects import Subjects

_SERVICE: Final = "unknot"


class Query(Struct, frozen=True):
    """Body of a question; empty: all defaults. *limit*: rows wanted at most."""

    limit: int = ROWS_DEFAULT


class Decision(Struct, frozen=True):
    """Body of ``approval.resolve``. *by*: the human that was asked; None: whichever it was."""

    id: str
    decision: Literal["approved", "denied"]
    reason: str | None = None
    by: str | None = None


class Rows(Struct, frozen=True):
    """Part of a table; *total*: rows that there are."""

    network: str
    epoch: int
    total: int
    rows: list[Any]


class _Endpoint(Struct):
    subject: str


class _Info(Struct):
    """What matters here of a micro service's answer to INFO."""

    endpoints: list[_Endpoint] = []


def most_rows(asked: int) -> int:
    """How many rows an answer has at most when *asked* are wanted."""
    return max(0, min(asked, ROWS_MAX))


async def served_networks(connection: Client, prefix: str) -> set[str]:
    """Networks that gateways on this server offer an api for; asks all of them, for ANOTHER_S at most."""
    inbox = await connection.subscribe(connection.new_inbox())
    await connection.publish(f"$SRV.INFO.{_SERVICE}", reply=inbox.subject)
    subjects: set[str] = set()
    try:
        async with asyncio.timeout(ANOTHER_S):
            while (message := await inbox.next_msg(timeout=ANOTHER_S)).data:  # empty: nobody is there
                subjects |= {one.subject for one in msgspec.json.decode(message.data, type=_Info).endpoints}
    except (TimeoutError, nats.errors.Error):
        pass  # all that answer in time have answered
    await inbox.unsubscribe()
    wanted = re.compile(re.escape(prefix) + r"\.([^.]+)\.api\.")
    return {match[1] for subject in subjects if (match := wanted.match(subject))}


class Api:
    """Answers ``<prefix>.<network>.api.<one of _READERS, or approval.resolve>`` for all networks."""

    def __init__(self, bus: NatsBus, owners: list[Owner], prefix: str) -> None:
        self._bus = bus
        self._owners = owners
        self._prefix = prefix
        self._service: Service | None = None

    async def start(self) -> None:
        """Offer the service, now and on every rebuilt connection."""
        self._bus.on_rebuilt = self._offer
        await self._offer(self._bus.connection)

    async def stop(self) -> None:
        """Take the service back."""
        if self._service is None or not self._bus.connection.is_connected:
            return
        try:
            async with asyncio.timeout(DRAIN_S):
                await self._service.stop()
        except (nats.errors.Error, TimeoutError):
            pass  # a connection that broke just now has taken it back already

    async def _offer(self, connection: Client) -> None:
        config = ServiceConfig(
            name=_SERVICE, version=version("unknot"), description="unknot gateway: queries"
        )
        self._service = await add_service(connection, config)
        for owner in self._owners:
            subjects = Subjects(owner.kernel.network, self._prefix)
            handlers = {name: self._handler(owner, read) for name, read in _READERS.items()}
            for name, handler in {**handlers, "approval.resolve": _resolver(owner)}.items():
                await self._service.add_endpoint(
                    EndpointConfig(
                        name=name.replace(".", "-"),
                        subject=subjects.api(name),
                        handler=handler,
                        metadata={"network": owner.kernel.network},
                    )
                )

    def _handler(self, owner: Owner, read: "_Read") -> Callable[[Request], Awaitable[None]]:
        async def handle(request: Request) -> None:
            try:
                asked = msgspec.json.decode(request.data or b"{}", type=Query)
            except msgspec.DecodeError as error:
                await request.respond_error("400", str(error))
                return
            limit = most_rows(asked.limit)
            await request.respond(await _fitting(read, owner, limit, self._bus.max_payload))

        return handle


def _resolver(owner: Owner) -> Callable[[Request], Awaitable[None]]:
    async def handle(request: Request) -> None:
        try:
            said = msgspec.json.decode(request.data, type=Decision)
        except msgspec.DecodeError as error:
            await request.respond_error("400", str(error))
            return
        fact = ApprovalDecided(said.id, said.decision, said.reason, said.by, ASKED_HERE)
        await request.respond(msgspec.json.encode(await owner.order(fact)))

    return handle


_Read = Callable[[Owner, int, float], Struct]


def _waits(owner: Owner, limit: int, now: float) -> Struct:
    kernel = _kernel(owner)
    return Rows(kernel.network, kernel.epoch, query.waits_total(kernel), query.waits(kernel, now, limit))


def _agents(owner: Owner, limit: int, now: float) -> Struct:
    kernel = _kernel(owner)
    rows = query.agents(kernel, now)
    return Rows(kernel.network, kernel.epoch, len(rows), rows[:limit])


def _approvals(owner: Owner, limit: int, now: float) -> Struct:
    kernel = _kernel(owner)
    rows = query.approvals(kernel, now)
    return Rows(kernel.network, kernel.epoch, len(rows), rows[:limit])


def _holds(owner: Owner, limit: int, now: float) -> Struct:
    kernel = _kernel(owner)
    total = sum(len(hold.parts) for hold in kernel.tables.resources.leases.all())
    return Rows(kernel.network, kernel.epoch, total, query.holds(kernel, now, limit))


def _stats(owner: Owner, _limit: int, _now: float) -> Struct:
    stats = query.stats(_kernel(owner))
    shell = {f"shell.{name}": count for name, count in sorted(owner.all_counters.items())}
    return msgspec.structs.replace(stats, counters=stats.counters | shell)


def _graph(owner: Owner, limit: int, _now: float) -> Struct:
    return query.graph(_kernel(owner), limit)


def _verdicts(owner: Owner, limit: int, now: float) -> Struct:
    return query.verdicts(_kernel(owner), now, limit)


_READERS: Final[dict[str, _Read]] = {
    "waits": _waits,
    "agents": _agents,
    "stats": _stats,
    "graph": _graph,
    "approvals": _approvals,
    "holds": _holds,
    "verdicts": _verdicts,
}


def _kernel(owner: Owner) -> Kernel:
    return cast(Kernel, owner.kernel)


async def _fitting(read: _Read, owner: Owner, limit: int, max_payload: int) -> bytes:
    """The answer, with fewer rows where the server would not take it whole."""
    while True:
        payload = msgspec.json.encode(await owner.read(partial(read, owner, limit)))
        if len(payload) <= max_payload or limit == 0:
            return payload
        limit //= 2
