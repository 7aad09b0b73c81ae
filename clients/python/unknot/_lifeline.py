"""What keeps a session known to the gateway: hello, heartbeats, reconciliation, bye."""

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from importlib import metadata
from typing import Final

import msgspec

from unknot import _watchdog
from unknot._refusals import not_permitted
from unknot._session import Session, encode
from unknot.errors import Unreachable, WaitFailed, from_receipt
from unknot_schemas import bodies
from unknot_schemas import errors as codes
from unknot_schemas.limits import HEARTBEAT_DEFAULT_S, NAMED_IDS_MAX
from unknot_schemas.subjects import SESSION_VERBS

logger = logging.getLogger("unknot")

HELLO_S: Final = 1.0
"""How long one hello waits for its answer before the next one."""
NOBODY_PAUSE_S: Final = 0.1
UNHEARD_PAUSE_S: Final = 0.5
"""Pause before the next heartbeat when no gateway was there to hear one."""
BYE_S: Final = 2.0
FOR_GOOD: Final = frozenset({"pool.declare", "artifact.publish"})
"""Standing words that are never unsaid by what comes later: they may be repeated until they are heard."""
ALL: Final = float("inf")
"""An instant that everything is older than."""

_receipt: Final = msgspec.json.Decoder(bodies.Receipt).decode
_welcome: Final = msgspec.json.Decoder(bodies.Welcome).decode
_pulse: Final = msgspec.json.Decoder(bodies.Pulse).decode


class Lifeline:
    """The life of one session, from hello to bye."""

    def __init__(self, session: Session, receive: Callable[[str, bytes], None]) -> None:
        self._session = session
        self._receive = receive
        self.pools = session.profile.pools
        """What this session serves; without them nothing is delivered to it."""
        self.heartbeat_s = session.profile.heartbeat_s or HEARTBEAT_DEFAULT_S
        self.on_beat: Callable[[], None] = lambda: None
        """Called with every heartbeat."""
        self._again: asyncio.TimerHandle | None = None
        self._resuming = False
        self._greeted = False
        self._watched = False
        self._refusals = 0
        self._refused: dict[str, int] = {}
        """Subjects, in lower case, of which the server has refused something, and the number of the last refusal: the
        next heartbeat shows what exactly."""
        self._asking = False
        """Whether a heartbeat is on its way because of them: one at a time, however much is refused."""
        self._loop = asyncio.get_running_loop()

    async def open(self, timeout: float) -> None:
        """Connect, subscribe, say hello. Unreachable when no server or gateway answers in *timeout* seconds."""
        session = self._session
        session.main.own.task = asyncio.current_task()
        session.transport.on_refused = self._publish_refused
        session.transport.on_denied = self._denied
        await session.transport.open(timeout)
        _watchdog.watch()
        self._watched = True
        session.transport.on_up = self._reconnected
        await self._begin(timeout)
        self._greeted = True
        session.tasks.start(self._heartbeats(), "heartbeat")

    async def close(self) -> None:
        """Say bye, fail what is still open as cancelled, let go. Nobody waits for ever on a closed session."""
        session = self._session
        try:
            if session.ended is None:
                session.end("the connection was closed")
                if self._greeted and session.transport.is_up:
                    await self._call("bye", bodies.Bye(session.token), BYE_S)
        finally:  # whoever is cancelled in its last words lets go all the same
            await session.tasks.close()
            await session.transport.close()
            if self._watched:
                self._watched = False
                _watchdog.unwatch()

    async def drain(self, at_most_s: float) -> None:
        """Take no new work; return when what is held has been answered, or *at_most_s* seconds are over."""
        session = self._session
        try:
            async with asyncio.timeout(at_most_s):
                if session.transport.is_up:
                    await self._call("bye", bodies.Bye(session.token, at_most_s), BYE_S)
                for _ in range(2):  # what was delivered before the gateway took the bye is handed over
                    await asyncio.sleep(0)
                await session.running.emptied()
        except TimeoutError:
            left = len(session.running.held)
            logger.warning("agent %s: %d events were not finished in %g s", session.agent, left, at_most_s)

    async def renew(self, pools: list[bodies.Pool], reason: str) -> None:
        """Leave this session for a new one with *pools*; what was open ends cancelled, what was held is abandoned."""
        session = self._session
        old = session.subjects.out(session.agent, session.token)
        session.post("bye", bodies.Bye(session.token))
        session.let_go(reason)
        self.pools = pools
        try:
            await self._begin(None)
        except WaitFailed as refused:
            logger.error("agent %s: no new session: %s", session.agent, refused)
            session.end(str(refused))
        await session.transport.silence(old)

    # ------------------------------------------------------------------ hello

    async def _begin(self, timeout: float | None) -> None:
        session = self._session
        session.become(secrets.token_urlsafe(16), f"{secrets.token_urlsafe(9)}-")
        await session.transport.listen(session.subjects.out(session.agent, session.token), self._receive)
        try:
            async with asyncio.timeout(timeout):
                while not await self._hello(self._first_hello()):
                    pass
        except TimeoutError:
            raise Unreachable(
                f"no gateway answers for network {session.subjects.network!r} at {session.transport.url}:"
                " start one with `unknot serve`",
                code=codes.UNREACHABLE,
                handled="no",
            ) from None

    def _first_hello(self) -> bodies.Hello:
        profile = self._session.profile
        return bodies.Hello(
            self._session.token,
            instance=profile.instance,
            pools=self.pools,
            main_runs=profile.main_runs,
            channels=list(profile.channels) or None,
            reentrant=profile.reentrant,
            exclusive=profile.exclusive,
            heartbeat_s=profile.heartbeat_s,
            sdk=_sdk(),
            connection=self._session.transport.connection,
        )

    def _hello_again(self) -> bodies.Hello:
        session = self._session
        return msgspec.structs.replace(
            self._first_hello(),
            resume=True,
            open=session.pending.named(ALL, NAMED_IDS_MAX),
            held=session.running.named(ALL, NAMED_IDS_MAX),
            answered=session.running.answered(NAMED_IDS_MAX),
            seen=session.running.seen,
            holds=session.holds.named(),
        )

    async def _hello(self, hello: bodies.Hello) -> bool:
        """Whether the gateway has taken it; False when none answers. A refusal raises."""
        asked_at = self._loop.time()
        answer = await self._call("hello", hello, HELLO_S)
        if answer is None:
            if self._loop.time() - asked_at < NOBODY_PAUSE_S:
                await asyncio.sleep(NOBODY_PAUSE_S)
            return False
        receipt = _receipt(answer)
        if not receipt.ok:
            raise from_receipt(receipt)
        welcome = _welcome(answer)
        self._session.epoch, self.heartbeat_s = welcome.epoch, welcome.heartbeat_s
        for verb, body in self._session.standing.again(self._session.token):
            if verb in FOR_GOOD:
                self._session.tasks.start(self._say_again(verb, body), f"{verb} again")
            else:
                self._session.post(verb, body)
        return True

    async def _say_again(self, verb: str, body: bodies.Body) -> None:
        """What nobody takes back may come late: it is said until it is heard."""
        with contextlib.suppress(WaitFailed):
            await self._session.order(verb, body, verb)

    async def _call(self, verb: str, body: bodies.Body, timeout: float) -> bytes | None:
        session = self._session
        return await session.transport.call(session.subjects.verb(session.agent, verb), encode(body), timeout)

    # ------------------------------------------------------------------ heartbeats

    async def _heartbeats(self) -> None:
        session = self._session
        while True:
            await asyncio.sleep(self.heartbeat_s)
            if session.ended is not None:
                return
            now = self._loop.time()
            session.running.sweep(now)
            if not self._resuming:
                self._beat(now - self.heartbeat_s)
                self.on_beat()

    def _reconnected(self) -> None:
        """What was on its way may be lost: name everything, whatever its age."""
        if self._session.ended is None:
            self._beat(ALL)

    def _beat(self, older_than: float) -> None:
        session = self._session
        refused = dict(self._refused)
        beat = bodies.Heartbeat(
            session.token,
            open=self._named(older_than, refused),
            held=session.running.named(older_than, NAMED_IDS_MAX),
            seen=session.running.seen,
            connection=session.transport.connection,
            holds=session.holds.named(),
        )
        subject = session.subjects.verb(session.agent, "heartbeat")
        made = session.transport.calls.made
        session.transport.ask(subject, encode(beat), partial(self._answered, refused, made))

    def _named(self, older_than: float, refused: Mapping[str, int]) -> list[str]:
        """Ids of what is open: first those that may have been refused, whatever their age."""
        pending = self._session.pending
        named = pending.named(older_than, NAMED_IDS_MAX)
        if not refused:
            return named
        doubtful = (entry.id for entry in pending if entry.subject.lower() in refused)
        return list(dict.fromkeys([*doubtful, *named]))[:NAMED_IDS_MAX]

    def _answered(self, refused: Mapping[str, int], calls: int, answer: bytes | None) -> None:
        session = self._session
        if session.ended is not None:
            return
        if answer is None:
            session.counters["heartbeats_unheard"] += 1
            if self._again is not None:
                self._again.cancel()  # one at a time, however long nobody listens
            self._again = self._loop.call_later(UNHEARD_PAUSE_S, self._reconnected)
            return
        receipt = _receipt(answer)
        if receipt.ok:
            pulse = _pulse(answer)
            session.epoch = pulse.epoch
            session.holds.unknown(pulse.unknown_holds)
            self._repair(pulse.unknown, pulse.not_held, self._refuse(refused, calls, pulse.unknown))
        elif receipt.error is not None and receipt.error.code in (codes.UNKNOWN_SESSION, codes.STALE_SESSION):
            if not self._resuming:
                self._resuming = True
                session.tasks.start(self._resume(), "resume")
        else:
            logger.error("agent %s: heartbeat refused: %s", session.agent, receipt.error)

    def _repair(self, unknown: Iterable[str], not_held: Iterable[str], refused: set[str]) -> None:
        """Send again what the gateway does not know; let go of what it does not count as held here."""
        session = self._session
        for id in unknown:
            entry = session.pending.get(id)
            if entry is not None and id not in refused:
                session.counters["sent_again"] += 1
                session.transport.post(entry.subject, entry.again(self._loop.time()), request_id=id)
        for id in not_held:
            session.running.disown(id)

    # ------------------------------------------------------------------ what the server refuses

    def _publish_refused(self, subject: str) -> None:
        """Only the subject is known, and not its case: the gateway knows what of it has arrived."""
        session = self._session
        own = session.subjects.verb(session.agent, "").lower()
        if subject.removeprefix(own) in SESSION_VERBS or session.ended is not None or not self._greeted:
            why = not_permitted(f"agent {session.agent} may not publish {subject!r}", subject)
            session.transport.calls.refuse(subject, session.transport.calls.made, why)
        else:
            self._refusals += 1
            self._refused[subject] = self._refusals
            if not self._asking:
                self._asking = True
                self._beat(ALL)

    def _refuse(self, refused: Mapping[str, int], calls: int, unknown: Iterable[str]) -> set[str]:
        """Fail what was sent on the subjects *refused* before the heartbeat and has not arrived; the ids of requests.

        The gateway answers in order: *calls* made before the heartbeat would have their Receipts by now.
        """
        session = self._session
        for subject, number in refused.items():
            if self._refused.get(subject) == number:
                del self._refused[subject]
        self._asking = bool(self._refused)
        if self._asking:  # more has been refused meanwhile
            self._beat(ALL)
        whys = {
            subject: not_permitted(f"agent {session.agent} may not publish {subject!r}", subject)
            for subject in refused
        }
        told = {
            subject for subject, why in whys.items() if session.transport.calls.refuse(subject, calls, why)
        }
        ids = set()
        for id in unknown if refused else ():
            entry = session.pending.get(id)
            subject = entry.subject.lower() if entry is not None else ""
            if entry is None or subject not in refused:
                continue
            ids.add(id)
            if entry.strand is not None or subject not in told:  # else the ask itself is told
                error = bodies.Error(codes.NOT_PERMITTED, whys[subject].message)
                session.pending.settle(bodies.Outcome(id, "refused", "no", session.epoch, error=error))
        return ids

    def _denied(self, why: WaitFailed) -> None:
        self._session.denied = why
        self._session.end(str(why))

    async def _resume(self) -> None:
        """The gateway has forgotten this session (a restart, a long silence): go on with it, or begin anew."""
        session = self._session
        try:
            while session.ended is None and not await self._hello(self._hello_again()):
                pass
            session.counters["resumed"] += 1
            self._reconnected()
            session.holds.renew_all()
        except WaitFailed as refused:
            if session.ended is not None:
                return  # replaced meanwhile: a new session would take the place of its successor
            if (by := refused.detail.get("replaced_by")) is not None:
                session.replaced(by)
                return
            logger.warning("agent %s: this session is over (%s); a new one begins", session.agent, refused)
            await self.renew(self.pools, f"the gateway counts its session as over: {refused}")
        finally:
            self._resuming = False


@cache
def _sdk() -> str:
    try:
        return f"python {metadata.version('unknot')}"
    except metadata.PackageNotFoundError:
        return "python"
