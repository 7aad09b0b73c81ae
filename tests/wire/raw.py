"""Raw clients of the wire: plain JSON over nats-py, as a program in any language could do it. Nothing of the SDK."""

import asyncio
import json
import secrets
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg

from unknot_schemas import Subjects

Json = dict[str, Any]
PATIENCE_S = 5.0
"""Hang limit of everything that must come; what comes, comes in milliseconds."""
TIMEOUT_S = 30.0
"""Of requests that must not end by their timeout: longer than the patience."""


class Arrival(NamedTuple):
    """One message that came. *kind*: event, outcome, or the type of a control message."""

    kind: str
    subject: str
    body: Json
    reply: str
    raw: bytes
    headers: Any


class Inbox:
    """What arrived, in order; each piece can be taken once."""

    def __init__(self) -> None:
        self.all: list[Arrival] = []
        self._left: list[Arrival] = []
        self._takers: list[tuple[Callable[[Arrival], bool], asyncio.Future[Arrival]]] = []

    def put(self, arrival: Arrival) -> None:
        """Hand *arrival* to whoever waits for it, or keep it."""
        self.all.append(arrival)
        for taker in self._takers:
            if not taker[1].done() and taker[0](arrival):
                taker[1].set_result(arrival)
                return
        self._left.append(arrival)

    async def take(self, wanted: Callable[[Arrival], bool], what: str, within: float = PATIENCE_S) -> Arrival:
        """The first piece not yet taken that is *wanted*; fails with *what* was missed after *within* seconds."""
        for arrival in self._left:
            if wanted(arrival):
                self._left.remove(arrival)
                return arrival
        taker = (wanted, asyncio.get_running_loop().create_future())
        self._takers.append(taker)
        try:
            return await asyncio.wait_for(taker[1], within)
        except TimeoutError:
            left = [(a.kind, a.body) for a in self._left[-5:]]
            raise AssertionError(f"no {what} within {within} s; not taken: {left}") from None
        finally:
            self._takers.remove(taker)

    def left(self, *kinds: str) -> list[Json]:
        """Bodies of what nobody took, of these kinds (none given: of all)."""
        return [a.body for a in self._left if not kinds or a.kind in kinds]


class Net:
    """One NATS connection and the agents that act over it; names get a tag, so that tests share a gateway."""

    def __init__(self, nc: Client, subjects: Subjects) -> None:
        self.nc = nc
        self.subjects = subjects
        self.tag = secrets.token_hex(3)
        self.peers: list[Peer] = []
        self.tasks: list[asyncio.Future[None]] = []
        """What handlers do; looked at in the end."""
        self._own = ""

    def name(self, plain: str) -> str:
        """The name of agent *plain* in this test."""
        return f"{plain}-{self.tag}"

    async def call(self, subject: str, body: object = b"", within: float = PATIENCE_S) -> Json:
        """Publish with a NATS reply subject; the first answer."""
        answer = await self.nc.request(subject, as_bytes(body), timeout=within)
        return json.loads(answer.data)

    async def tell(self, subject: str, body: object = b"", reply: str = "") -> None:
        """Publish and ask for nothing."""
        await self.nc.publish(subject, as_bytes(body), reply=reply)

    async def verb(self, agent: str, verb: str, body: object) -> Json:
        """One of the verbs about sessions, waits and requests; its Receipt."""
        return await self.call(self.subjects.verb(agent, verb), body)

    async def settled(self) -> None:
        """All that this connection sent so far has been handled, and what it caused at once has arrived here."""
        for agent in {self.name("settled"), *(peer.agent for peer in self.peers)}:  # each has its own order
            await self.verb(agent, "request.cancel", {"id": new_id()})
        for _ in range(10):
            await asyncio.sleep(0)

    async def api(self, endpoint: str, body: object = b"") -> Any:
        """The answer of a query."""
        return await self.call(self.subjects.api(endpoint), body)

    async def rows(self, endpoint: str) -> list[Json]:
        """All rows of one of the gateway's tables, after all that this connection sent so far."""
        await self.settled()
        return (await self.api(endpoint, {"limit": 10_000}))["rows"]

    async def waits(self) -> list[Json]:
        """The open waits of this test's agents."""
        return [w for w in await self.rows("waits") if w["waiter"].endswith(self.tag)]

    async def wait_row(self, wait_id: str) -> Json | None:
        """The open wait *wait_id*; None if there is none."""
        return next((w for w in await self.rows("waits") if w["id"] == wait_id), None)

    async def counter(self, name: str) -> int:
        """How often the gateway counted *name*, under whatever heading."""
        counters = (await self.api("stats"))["counters"]
        return sum(n for key, n in counters.items() if f".{key}".endswith(f".{name}"))

    async def listen(self, subject: str) -> Inbox:
        """What comes on *subject*, a NATS pattern, from now on."""
        inbox = Inbox()

        async def take_in(msg: Msg) -> None:
            inbox.put(self.arrival(msg))

        await self.nc.subscribe(subject, cb=take_in)
        await self.nc.request(await self._own_subject(), b"")  # the server has seen the subscription
        return inbox

    async def _own_subject(self) -> str:
        if not self._own:
            self._own = f"_INBOX.{self.name('own')}"

            async def answer(msg: Msg) -> None:
                await msg.respond(b"")

            await self.nc.subscribe(self._own, cb=answer)
        return self._own

    def arrival(self, msg: Msg) -> Arrival:
        """Read a message that the gateway sent."""
        words = msg.subject.removeprefix(f"{self.subjects.root}.").split(".")
        kind = words[0]
        if kind == "out":
            kind = ".".join(words[4:]) if words[3] == "control" else words[3]
        body = json.loads(msg.data) if msg.data else None
        return Arrival(kind, msg.subject, body, msg.reply, msg.data, msg.headers)

    async def stranger(self, plain: str, *, listens: bool = True) -> "Peer":
        """An agent that never says hello: session 0."""
        peer = Peer(self, self.name(plain), "0")
        self.peers.append(peer)
        if listens:
            await peer.listen()
        return peer

    async def peer(self, plain: str, **hello: Any) -> "Peer":
        """An agent that subscribed and said hello; without more it is a script: one main pool."""
        peer = Peer(self, self.name(plain), new_session())
        self.peers.append(peer)
        await peer.listen()
        await peer.hello(**hello)
        return peer

    async def worker(self, plain: str, concurrency: int = 1, **hello: Any) -> "Peer":
        """An agent with handlers: *concurrency* slots for all types."""
        return await self.peer(plain, concurrency=concurrency, **hello)

    async def echo(self, plain: str, concurrency: int = 64) -> "Peer":
        """A worker that answers everything at once with the data it was sent."""
        peer = await self.worker(plain, concurrency)
        peer.on_event = lambda event: peer.answer(event, event["data"])
        return peer

    async def close(self) -> None:
        """All sessions say bye; the connection closes."""
        for peer in self.peers:
            if peer.session != "0" and not self.nc.is_closed:
                await self.tell(peer.verb_subject("bye"), {"session": peer.session})
        await self.settled()
        await asyncio.gather(*self.tasks)
        await self.nc.close()


class Peer:
    """One session of an agent, kept by hand: it knows what it has open and what it holds."""

    def __init__(self, net: Net, agent: str, session: str) -> None:
        self.net = net
        self.agent = agent
        self.session = session
        self.welcome: Json = {}
        self.inbox = Inbox()
        self.open: set[str] = set()
        self.held: dict[str, str] = {}
        self.had: set[str] = set()
        """Ids of all events that ever arrived."""
        self.seqs: set[int] = set()
        self.strands: dict[str, Json] = {}
        """What facts say of an execution's strands; absent: nothing is alive, nothing awaited."""
        self.given_up: set[str] = set()
        """What facts and heartbeats leave out."""
        self.silent = False
        """Whether it leaves ``confirm`` unanswered."""
        self.keeps = True
        """Whether it holds what is delivered until it has answered."""
        self.on_event: Callable[[Json], Awaitable[None]] | None = None
        self._subscription: Any = None

    async def listen(self) -> None:
        """Subscribe what is for this session."""
        self._subscription = await self.net.nc.subscribe(
            self.net.subjects.out(self.agent, self.session), cb=self._take_in
        )

    async def deafen(self) -> None:
        """Listen no more, the session lives on."""
        await self._subscription.unsubscribe()

    def verb_subject(self, verb: str) -> str:
        """Where this agent sends *verb*."""
        return self.net.subjects.verb(self.agent, verb)

    async def verb(self, verb: str, **body: Any) -> Json:
        """A verb of this session; its Receipt."""
        return await self.net.verb(self.agent, verb, {"session": self.session, **body})

    async def hello(self, **fields: Any) -> Json:
        """Say hello; it must be welcome."""
        self.welcome = await self.verb("hello", protocol=1, **fields)
        assert self.welcome["ok"], self.welcome
        return self.welcome

    # what it sends

    def envelope(self, fields: Json) -> Json:
        """An envelope of this session; a field that is None is left out."""
        own = {} if self.session == "0" else {"session": self.session}
        return {"unknot": 1, **own, **{k: v for k, v in fields.items() if v is not None}}

    def subject(self, verb: Any, target: "Peer | str", event_type: str) -> str:
        """Where this agent sends an event for *target*."""
        return self.net.subjects.event(self.agent, verb, getattr(target, "agent", target), event_type)

    async def request(
        self, target: "Peer | str", event_type: str = "work.do", data: object = None, **fields: Any
    ) -> str:
        """A blocking request whose Outcome comes to this session's subject; its id."""
        fields = {"id": new_id(), "timeout_s": TIMEOUT_S, "data": data, **fields}
        self.open.add(fields["id"])
        await self.net.tell(self.subject("request", target, event_type), self.envelope(fields))
        return fields["id"]

    async def send_and_wait(
        self, target: "Peer | str", event_type: str = "work.do", data: object = None, **fields: Any
    ) -> Json:
        """A blocking request with a NATS reply subject: what came there, an Outcome or a Receipt of refusal."""
        fields = {"id": new_id(), "timeout_s": TIMEOUT_S, "data": data, **fields}
        self.open.add(fields["id"])
        try:
            return await self.net.call(
                self.subject("request", target, event_type),
                self.envelope(fields),
                within=(fields["timeout_s"] or TIMEOUT_S) + 5,
            )
        finally:
            self.open.discard(fields["id"])

    async def ask(
        self, target: "Peer | str", event_type: str = "work.do", data: object = None, **fields: Any
    ) -> Json:
        """A request that blocks nothing; its Receipt. The Outcome comes to this session's subject."""
        fields = {"id": new_id(), "timeout_s": TIMEOUT_S, "data": data, **fields}
        return await self.net.call(self.subject("ask", target, event_type), self.envelope(fields))

    async def send(
        self, target: "Peer | str", event_type: str = "work.do", data: object = None, **fields: Any
    ) -> Json:
        """A one-way event; its Receipt."""
        return await self.net.call(
            self.subject("send", target, event_type), self.envelope({"id": new_id(), "data": data, **fields})
        )

    async def answer(self, event: Json, data: object = None, **fields: Any) -> Json:
        """Answer a request; the Receipt."""
        return await self.answer_id(event["id"], data, **fields)

    async def answer_id(self, request_id: str, data: object = None, **fields: Any) -> Json:
        """Answer the request of this id, delivered or not; the Receipt."""
        if fields.get("done", True):
            self.held.pop(request_id, None)
        return await self.net.call(
            self.net.subjects.reply(self.agent, request_id), self.envelope({"data": data, **fields})
        )

    async def done(self, *events: Json) -> Json:
        """The handlers of these events have returned."""
        for event in events:
            self.held.pop(event["id"], None)
        return await self.verb("done", ids=[event["id"] for event in events])

    async def defer(self, *events: Json, by: str | None = None) -> Json:
        """The answers come later."""
        for event in events:
            self.held[event["id"]] = "deferred"
        return await self.verb("defer", ids=[e["id"] for e in events], **({"by": by} if by else {}))

    async def wait_open(self, *on: Json, **fields: Any) -> Json:
        """Open a wait; its Receipt (with the id)."""
        fields = {"id": new_id(), "timeout_s": TIMEOUT_S, "on": list(on), **fields}
        self.open.add(fields["id"])
        receipt = await self.verb("wait.open", **fields)
        return {"id": fields["id"], **receipt}

    async def wait_close(self, wait_id: str, **fields: Any) -> Json:
        """Close a wait; the Receipt."""
        self.open.discard(wait_id)
        return await self.verb("wait.close", id=wait_id, **fields)

    async def cancel(self, request_id: str) -> Json:
        """The answer is not wanted any more; the Receipt."""
        return await self.verb("request.cancel", id=request_id)

    async def bye(self, **fields: Any) -> Json:
        """The session ends."""
        return await self.verb("bye", **fields)

    async def heartbeat(self, **fields: Any) -> Json:
        """Name what is open and held; the Pulse."""
        return await self.verb("heartbeat", **{**self.state(), **fields})

    def state(self) -> Json:
        """What a heartbeat names."""
        held = [{"id": i, "state": s} for i, s in self.held.items()]
        return {"open": sorted(self.open - self.given_up), "held": held, "seen": self.seen}

    @property
    def seen(self) -> int:
        """Number of the last delivery before the first gap."""
        last = 0
        while last + 1 in self.seqs:
            last += 1
        return last

    @asynccontextmanager
    async def beating(self, every: float = 0.4) -> Any:
        """Heartbeats go on by themselves inside."""

        over = asyncio.Event()

        async def beat() -> None:
            while not over.is_set():
                await self.heartbeat()
                with suppress(TimeoutError):
                    await asyncio.wait_for(over.wait(), every)

        task = asyncio.create_task(beat())
        try:
            yield self
        finally:
            over.set()
            await task

    # what it gets

    async def event(self, event_type: str | None = None, within: float = PATIENCE_S) -> Json:
        """The next delivered event (of this type)."""
        return (await self.event_arrival(event_type, within)).body

    async def event_arrival(self, event_type: str | None = None, within: float = PATIENCE_S) -> Arrival:
        """The next delivered event as it came."""
        return await self.inbox.take(
            lambda a: a.kind == "event" and event_type in (None, a.body["type"]),
            f"event {event_type or ''} for {self.agent}",
            within,
        )

    async def outcome(self, request_id: str, within: float = PATIENCE_S) -> Json:
        """How this request or wait ended."""
        return (
            await self.inbox.take(
                lambda a: a.kind == "outcome" and a.body["request_id"] == request_id,
                f"outcome of {request_id} for {self.agent}",
                within,
            )
        ).body

    async def control(self, control_type: str, within: float = PATIENCE_S, **fields: object) -> Json:
        """The next control message of this type with these fields."""
        return (
            await self.inbox.take(
                lambda a: a.kind == control_type and fields.items() <= a.body.items(),
                f"control {control_type} for {self.agent}",
                within,
            )
        ).body

    async def _take_in(self, msg: Msg) -> None:
        arrival = self.net.arrival(msg)
        body = arrival.body
        if arrival.kind == "event":
            self.seqs.add(body.get("seq", 0))
            self.had.add(body["id"])
            if self.keeps and "for" not in body and "seq" in body:
                self.held.setdefault(body["id"], "running")
        elif arrival.kind == "outcome":
            self.open.discard(body["request_id"])
        elif arrival.kind == "confirm" and not self.silent:
            await self.give_facts(body)
        self.inbox.put(arrival)
        if arrival.kind == "event" and self.on_event is not None:
            self.net.tasks.append(asyncio.ensure_future(self.on_event(body)))

    async def give_facts(self, confirm: Json) -> None:
        """Answer ``confirm`` truly, but for what the test changed."""
        asked = {wait["id"] for wait in confirm["waits"]}
        facts = {
            "session": self.session,
            "incident": confirm["incident"],
            "open": sorted((self.open & asked) - self.given_up),
            "requests": {i: self.held.get(i, "done") for i in confirm["requests"] if i in self.had},
            "strands": {
                e: self.strands.get(e, {"alive": [], "awaited": []}) for e in confirm.get("executions", [])
            },
        }
        await self.net.tell(self.verb_subject("facts"), facts)


async def connect(url: str, subjects: Subjects | None = None) -> Net:
    """A connection of its own."""
    nc = await nats.connect(url, max_reconnect_attempts=-1, reconnect_time_wait=0.1)
    return Net(nc, subjects or Subjects())


def as_bytes(body: object) -> bytes:
    """Bytes as they are, everything else as JSON."""
    return body if isinstance(body, bytes) else json.dumps(body).encode()


def new_id() -> str:
    """An id that nobody used."""
    return secrets.token_urlsafe(9)


def new_session() -> str:
    """A session token of 96 random bits."""
    return secrets.token_urlsafe(12)


__all__ = ["Arrival", "Inbox", "Json", "Net", "Peer", "connect", "new_id", "new_session"]
