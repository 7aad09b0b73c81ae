"""A whole gateway: server, bus, one owner for each network, the api; started, watched and drained."""

import asyncio
import gc
import os
import signal
import time
from collections.abc import Callable, Iterable
from functools import partial
from secrets import token_hex
from typing import cast
from urllib.parse import urlsplit

import structlog
from msgspec import Struct

from unknot_gateway.core.kernel import Kernel
from unknot_gateway.identity.users import Users
from unknot_gateway.shell.access import Access
from unknot_gateway.shell.api import Api, served_networks
from unknot_gateway.shell.bus import Login, NatsBus
from unknot_gateway.shell.captures import warn_of_captures
from unknot_gateway.shell.disconnects import telling
from unknot_gateway.shell.egress import Egress
from unknot_gateway.shell.embedded import EmbeddedServer, ServerFailed
from unknot_gateway.shell.hearing import Echo, Sounding
from unknot_gateway.shell.ingress import Ingress
from unknot_gateway.shell.limits import DRAIN_S, GC_NEW_OBJECTS
from unknot_gateway.shell.loop import Owner
from unknot_gateway.shell.settings import Settings
from unknot_gateway.shell.siege import Siege
from unknot_gateway.shell.succession import Serves, Succession
from unknot_schemas.subjects import Subjects

log = structlog.get_logger()

_Guard = Sounding | Siege
"""What stands between one network and a flood; closed before the last messages are taken."""


class AlreadyServed(Exception):
    """A network has a gateway; the text says which network."""


class Ready(Struct, frozen=True):
    """What a starter wants to know of a gateway that takes messages now."""

    nats: str
    network: str
    """The first of *networks*."""
    networks: list[str]
    epoch: int
    pid: int
    server_pid: int | None
    """Of the embedded NATS server; None: not ours."""


async def serve(
    settings: Settings,
    on_ready: Callable[[Ready], None],
    login: Login = dict,
    system_login: Login | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT, then drain. *login*, *system_login*: to the server of ``settings.nats``.

    Raises ServerFailed, NotReachable, AlreadyServed, Superseded, BadUsers, AlreadyPresent.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    access = _access(settings)
    server: EmbeddedServer | None = None
    try:
        if settings.nats is None:
            authorization = access.authorization if access is not None else ""
            server = await EmbeddedServer.start(settings.port, settings.data, authorization=authorization)
            login = access.login if access is not None else dict
            system_login = server.system_login
        await _serve(settings, server, access, (login, system_login), on_ready, stop)
    finally:
        if access is not None:
            access.close()
        if server is not None:
            await server.stop()


def _access(settings: Settings) -> Access | None:
    if settings.users is None:
        return None
    asked_early: list[None] = []
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGHUP, asked_early.append, None)  # before anybody can find this process
    access = Access(settings.users, settings.prefix)
    loop.add_signal_handler(signal.SIGHUP, access.ask_to_reload)
    if asked_early:
        access.ask_to_reload()
    return access


async def _serve(
    settings: Settings,
    server: EmbeddedServer | None,
    access: Access | None,
    logins: tuple[Login, Login | None],
    on_ready: Callable[[Ready], None],
    stop: asyncio.Event,
) -> None:
    url = server.url if server is not None else str(settings.nats)
    login, system_login = logins
    bus = NatsBus(url, login=login)
    if not await _opened(bus, settings.connect_s, stop):
        return
    epoch = int(time.time() * 1000)
    any_inbox = _any_inbox(settings, url, has_login=access is not None or bool(login()))
    owners = [_owner(settings, network, epoch, bus, any_inbox) for network in settings.networks]
    running = [asyncio.create_task(owner.run(), name=f"owner {owner.kernel.network}") for owner in owners]
    succession = Succession(bus, owners, settings.prefix, Serves(epoch, token_hex(8)))
    tasks = [*running, asyncio.create_task(bus.supervise()), asyncio.create_task(succession.ended())]
    if access is not None:
        _keep_to_channels(access, owners)
        tasks.append(asyncio.create_task(access.keep(server), name="users"))
    api = Api(bus, owners, settings.prefix)
    try:
        await _refuse_a_second(bus, settings)
        async with telling(url, system_login, owners, settings.connect_s):
            guards = await _take_in(bus, owners, succession, settings.prefix)
            await api.start()
            await bus.barrier()
            await warn_of_captures(bus.connection, settings)
            _spare_the_collector()
            on_ready(_ready(settings, url, epoch, server, any_inbox))
            await _until_stopped(stop, tasks, server)
        await _drain(bus, api, guards, owners, running)
    finally:
        succession.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await bus.close()


async def _take_in(bus: NatsBus, owners: list[Owner], succession: Succession, prefix: str) -> list[_Guard]:
    """Say that this gateway serves, before it hears anybody and after: of two that start together one hears it."""
    await succession.tell()
    guards: list[_Guard] = []
    for owner in owners:
        inbound, gate = Subjects(owner.kernel.network, prefix).inbound, succession.gate(owner)
        await bus.listen(inbound, gate)
        sounding = Sounding(bus, owner.hearing, owner.inbox)
        await sounding.begin()
        siege = Siege(bus, owner, inbound, gate, partial(_known, owner))
        sounding.on_late = siege.weigh
        guards += [sounding, siege]
    await succession.tell()

    async def back() -> None:
        for guard in guards:
            if isinstance(guard, Sounding):
                guard.connected_again()
        await succession.tell()

    bus.on_back = back
    return guards


def _known(owner: Owner) -> Iterable[str]:
    """The agents that the gateway knows now."""
    return cast(Kernel, owner.kernel).tables.sessions.agents


async def _opened(bus: NatsBus, patience_s: float, stop: asyncio.Event) -> bool:
    """Connect; False when asked to stop before that."""
    opening = asyncio.create_task(bus.open(patience_s))
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({opening, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if opening.done():
            opening.result()
        return opening.done()
    finally:
        stopping.cancel()
        opening.cancel()


async def _refuse_a_second(bus: NatsBus, settings: Settings) -> None:
    """Two gateways that both decide would contradict each other. Raises AlreadyServed."""
    served = await served_networks(bus.connection, settings.prefix)
    for network in settings.networks:
        if network in served:
            raise AlreadyServed(
                f"another gateway serves network {network} at {bus.url}: stop it, or use --network"
            )


def _any_inbox(settings: Settings, url: str, *, has_login: bool) -> bool:
    if settings.any_inbox is not None:
        return settings.any_inbox
    return _is_loopback(url) and not has_login and "@" not in url


def _keep_to_channels(access: Access, owners: list[Owner]) -> None:
    """From now on, and whenever the users change, agents are members only of the channels that they may be in."""

    def keep(users: Users) -> None:
        for owner in owners:
            owner.ingress.channels = users.channels_of(owner.kernel.network)

    access.on_loaded = keep
    keep(access.users)


def _is_loopback(url: str) -> bool:
    """Whether all servers named in *url* (one, or several with commas) are on this machine alone."""
    hosts = [urlsplit(one if "//" in one else f"nats://{one}").hostname for one in url.split(",")]
    return all(host in ("localhost", "127.0.0.1", "::1") for host in hosts)


def _spare_the_collector() -> None:
    """Most of what lives is tables that grow and shrink by themselves: look for cycles seldom, never in the modules."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_NEW_OBJECTS)


def _owner(settings: Settings, network: str, epoch: int, bus: NatsBus, any_inbox: bool) -> Owner:
    subjects = Subjects(network, settings.prefix)
    config = settings.kernel_config(network)
    kernel, egress = Kernel(network, epoch, config), Egress(subjects, bus.max_payload)
    ingress = Ingress(subjects, any_inbox=any_inbox, retry_after_s=config.limits.retry_after_s)
    return Owner(kernel, ingress, egress, bus, rate=config.limits.requests_per_s, proof=Echo(bus))


def _ready(settings: Settings, url: str, epoch: int, server: EmbeddedServer | None, any_inbox: bool) -> Ready:
    log.info("ready", url=url, networks=settings.networks, epoch=epoch, any_inbox=any_inbox)
    return Ready(
        nats=url,
        network=settings.networks[0],
        networks=settings.networks,
        epoch=epoch,
        pid=os.getpid(),
        server_pid=server.pid if server is not None else None,
    )


async def _until_stopped(
    stop: asyncio.Event, tasks: list[asyncio.Task[None]], server: EmbeddedServer | None
) -> None:
    """Return when asked to stop; raise what ended a task, or ServerFailed when the embedded server has ended."""
    stopped = asyncio.create_task(stop.wait())
    ended = asyncio.create_task(server.wait()) if server is not None else None
    watched: set[asyncio.Task[object]] = {stopped, *tasks} if ended is None else {stopped, ended, *tasks}
    try:
        await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
        if ended is not None and ended.done():
            raise ServerFailed(f"the embedded NATS server ended: {ended.result()}")
        for task in tasks:
            if task.done():
                task.result()
    finally:
        stopped.cancel()
        if ended is not None:
            ended.cancel()


async def _drain(
    bus: NatsBus, api: Api, guards: list[_Guard], owners: list[Owner], running: list[asyncio.Task[None]]
) -> None:
    log.info("stopping: taking nothing new, handling what has come")
    await api.stop()
    for guard in guards:
        await guard.close()
    await bus.stop_intake()
    for owner in owners:
        owner.stop()
    await asyncio.wait(running, timeout=DRAIN_S)
    log.info("stopped")
