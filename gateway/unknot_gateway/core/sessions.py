"""Who lives: agents, their sessions and pools, tokens used once."""

from collections import OrderedDict

from msgspec import Struct

from unknot_gateway.core.limits import Limits
from unknot_gateway.core.records import Agent, Pool, Session
from unknot_schemas import bodies
from unknot_schemas.ids import NO_SESSION, AgentId, SessionId, matches
from unknot_schemas.limits import HEARTBEAT_DEFAULT_S, HEARTBEAT_MAX_S, HEARTBEAT_MIN_S


class _Used(Struct, gc=False):
    """A token that names, or has named, a session of *agent*. *by*: the session that has taken its place."""

    agent: AgentId
    generation: int
    by: SessionId | None = None


class SessionTable:
    """Owner of all agents and sessions."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.agents: dict[AgentId, Agent] = {}
        self._said_hello: OrderedDict[AgentId, None] = OrderedDict()
        """Agents that are not there now, but were."""
        self._used: OrderedDict[SessionId, _Used] = OrderedDict()
        self._channels: dict[str, dict[Session, None]] = {}
        """Live sessions by channel."""
        self._generations = 0

    def agent(self, name: AgentId) -> Agent:
        """The agent's entry, made when it is new."""
        agent = self.agents.get(name)
        if agent is None:
            agent = self.agents[name] = Agent(name, said_hello=name in self._said_hello)
        return agent

    def is_full(self) -> bool:
        """Whether no further agent may be entered."""
        return len(self.agents) >= self._limits.agents_max

    def find(self, name: AgentId, session: str | None) -> Session | None:
        """The live session of *name* with that token."""
        agent = self.agents.get(name)
        return agent.sessions.get(SessionId(session)) if agent is not None and session is not None else None

    def all(self) -> list[Session]:
        """Every live session, stand-ins of agents without hello included."""
        found: list[Session] = []
        for agent in self.agents.values():
            found += agent.sessions.values()
            if agent.zero is not None:
                found.append(agent.zero)
        return found

    def zero(self, agent: Agent, now: float) -> Session:
        """The stand-in of an agent that never said hello: one serial main that serves everything."""
        if agent.zero is None:
            agent.zero = self._new(agent, NO_SESSION, now, said_hello=False)
            agent.zero.pools = (Pool(agent.zero, None, None, main=True),)
        return agent.zero

    def is_used(self, token: str) -> bool:
        """Whether the token has named a session before, of whichever agent."""
        return SessionId(token) in self._used

    def successor(self, name: AgentId, hello: bodies.Hello) -> SessionId | None:
        """The session that has taken the place of the one that says *hello* and is not live; None if none has.

        Younger is what began in this epoch after it; of two that only resumed nobody can know.
        """
        used = self._used.get(SessionId(hello.session))
        if used is not None and (used.agent != name or used.by is not None):
            return used.by if used.agent == name else None
        agent = self.agents.get(name)
        if agent is None or (used is None and not hello.resume):
            return None
        generation = used.generation if used is not None else 0
        for other in agent.sessions.values():
            if other.resumed or other.generation < generation or other.hello is None:
                continue
            if other.hello.exclusive or _is_same_instance(other.hello, hello):
                return other.id
        return None

    def replaced_by(self, hello: bodies.Hello, agent: Agent) -> list[Session]:
        """The live sessions of *agent* whose place the one that says *hello* for the first time takes."""
        return [
            old
            for old in agent.sessions.values()
            if (hello.exclusive or (old.hello is not None and _is_same_instance(old.hello, hello)))
            and (old.resumed or not hello.resume)
        ]

    def replace(self, name: AgentId, token: str, by: SessionId) -> None:
        """Session *by* has taken the place of the one with *token*, which never comes back."""
        used = self._used.get(SessionId(token))
        self._use(SessionId(token), _Used(name, used.generation if used is not None else 0, by))

    def open(self, agent: Agent, hello: bodies.Hello, now: float) -> Session:
        """Enter a new live session of *agent*."""
        session = self._new(agent, SessionId(hello.session), now, said_hello=True)
        session.hello = hello
        self.describe(session, hello)
        session.pools = pools_of(session, hello)
        agent.said_hello = True
        agent.sessions[session.id] = session
        self._use(session.id, _Used(agent.id, session.generation))
        return session

    def describe(self, session: Session, hello: bodies.Hello) -> None:
        """Take over what *hello* says besides its pools."""
        asked = hello.heartbeat_s if hello.heartbeat_s is not None else HEARTBEAT_DEFAULT_S
        session.heartbeat_s = min(max(asked, HEARTBEAT_MIN_S), HEARTBEAT_MAX_S)
        self._leave_channels(session)
        session.channels = frozenset(name.removeprefix("@") for name in hello.channels or ())
        for channel in session.channels:
            self._channels.setdefault(channel, {})[session] = None

    def _leave_channels(self, session: Session) -> None:
        for channel in session.channels:
            sessions = self._channels.get(channel, {})
            sessions.pop(session, None)
            if not sessions:
                self._channels.pop(channel, None)

    def close(self, session: Session) -> None:
        """The session is live no more."""
        session.live = False
        self._leave_channels(session)
        agent = session.agent
        if agent.zero is session:
            agent.zero = None
        else:
            agent.sessions.pop(session.id, None)
        self.forget_if_gone(agent)

    def forget_if_gone(self, agent: Agent) -> None:
        """Forget an agent without sessions for which nothing waits; that it ever said hello is kept for a while."""
        if (
            agent.sessions
            or agent.zero is not None
            or agent.queued
            or self.agents.pop(agent.id, None) is None
        ):
            return
        if agent.said_hello:
            self._said_hello[agent.id] = None
            self._said_hello.move_to_end(agent.id)
            while len(self._said_hello) > self._limits.tokens_max:
                self._said_hello.popitem(last=False)

    def members(self, channel: str, sender: AgentId) -> list[Agent]:
        """Agents other than *sender* with a live session in *channel*, by name."""
        sessions = self._channels.get(channel, ())
        found = {s.name: s.agent for s in sessions if not s.draining and s.name != sender}
        return [found[name] for name in sorted(found)]

    def _use(self, token: SessionId, used: _Used) -> None:
        self._used[token] = used
        while len(self._used) > self._limits.tokens_max:
            self._used.popitem(last=False)

    def _new(self, agent: Agent, token: SessionId, now: float, *, said_hello: bool) -> Session:
        self._generations += 1
        return Session(agent, agent.id, token, self._generations, said_hello, now, HEARTBEAT_DEFAULT_S)


def _is_same_instance(one: bodies.Hello, other: bodies.Hello) -> bool:
    return one.instance is not None and one.instance == other.instance


def pools_of(session: Session, hello: bodies.Hello) -> tuple[Pool, ...]:
    """The pools that *hello* declares: of each type, or one of *concurrency* slots, or else one main pool."""
    if hello.pools is not None:
        return tuple(
            Pool(session, pool.slots, None if pool.types is None else tuple(pool.types), pool.main)
            for pool in hello.pools
        )
    if hello.concurrency is not None:
        return (Pool(session, hello.concurrency, None, main=False),)
    return (Pool(session, 1, None, main=True),)


def pool_for(session: Session, event_type: str) -> Pool | None:
    """The pool of *session* that serves *event_type*: the first that names it, else the one without names."""
    rest: Pool | None = None
    for pool in session.pools:
        if pool.patterns is None:
            rest = rest or pool
        elif any(matches(pattern, event_type) for pattern in pool.patterns):
            return pool
    return rest
