"""Hostile messages at random: bodies that are nearly right, bodies with bytes changed, bytes that mean nothing."""

import json
from collections.abc import Callable
from random import Random
from typing import Any, Final

from msgspec import Struct

from unknot_schemas.subjects import SESSION_VERBS

AGENTS: Final = ("birch", "elm", "flint", "agent:birch")
TARGETS: Final = (*AGENTS, "helper", "@news", "@gone", "ghost")
IDS: Final = tuple(f"r{n}" for n in range(24))
WAITS: Final = ("w1", "w2", *IDS)
TYPES: Final = ("work", "news", "a.b")
STRANDS: Final = (None, None, "s1", "s2")
EXECUTIONS: Final = (None, "main", *IDS)
ODD: Final = (
    None, True, -1, 0, 1.5, 2**63, 2**70, 1e308, 5e-324, "", "x" * 65, "a\n", "\x00", "\ud800", "\uff11", [], {}, [[]],
    {"": {}}, "gateway", "agent:agent:x", "*", ">", "a.b",
)  # fmt: skip
VERBS: Final = (
    "hello", "request", "request", "request", "request", "ask", "send", "reply", "reply", "reply", "done", "defer",
    "heartbeat", "wait.open", "wait.open", "wait.close", "request.cancel", "facts", "facts", "bye", "publish", "503",
)  # fmt: skip
RESOURCE_VERBS: Final = tuple(sorted(SESSION_VERBS - set(VERBS)))
"""Locks, permits, artifacts, approvals, holders: their bodies are drawn by the names of their fields."""
REPLIES: Final = (
    "",
    "_INBOX.x.1",
    "_INBOX.x.1",
    "_INBOX.>",
    "$JS.API.X",
    "unknot.default.in.elm.bye",
    "_INBOX.\x0b",
)
THINGS: Final = ("door", "desk", "report")
Body = dict[str, Any]


class Letter(Struct):
    """What is published: after ``in.`` in the subject, and the rest as it is. *status*: the server's, forged."""

    after: str
    reply: str
    body: bytes
    status: str | None = None


class Letters:
    """Draws letters. What the gateway answers may be told to it, so that it names what there is."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.incidents = ["i7-1"]
        self.live: Callable[[str], list[str]] | None = None
        """The live sessions of an agent, where that is known: then letters are mostly of one of them."""
        self._tokens: dict[str, str] = {}
        self._drawn = 0
        self._before: list[bytes] = [b"null"]

    def draw(self) -> Letter:
        """The next one."""
        random = self.random
        verbs = VERBS if random.random() < 0.75 else RESOURCE_VERBS
        agent, verb = random.choice(AGENTS), random.choice(verbs)
        if self.live is not None and not self.live(agent.removeprefix("agent:")) and random.random() < 0.5:
            verb = "hello"
        body, after = self._body(agent, verb)
        if verb == "503":
            return Letter(after, "", b"", "503")
        payload = json.dumps(body).encode()
        kind = random.random()
        if kind < 0.08:
            payload = self._changed(payload)
        elif kind < 0.10:
            payload = random.randbytes(random.randint(0, 64))
        elif kind < 0.12:
            payload = random.choice(self._before)
        if random.random() < 0.02:
            after = self._changed_subject(after)
        self._before = [*self._before[-20:], payload]
        return Letter(after, random.choice(REPLIES[:2] if random.random() < 0.9 else REPLIES), payload)

    def _body(self, agent: str, verb: str) -> tuple[Body, str]:
        makers: dict[str, Callable[[str], Body]] = {
            "hello": self._hello,
            "heartbeat": self._heartbeat,
            "wait.open": self._wait,
            "facts": self._facts,
        }
        random, session = self.random, self._session(agent)
        after = f"{agent}.{verb}"
        if verb in makers:
            body = makers[verb](agent)
        elif verb in RESOURCE_VERBS:
            body = self._of_resources(session)
        elif verb in ("request", "ask", "send"):
            body, after = self._event(agent), f"{after}.{random.choice(TARGETS)}.{random.choice(TYPES)}"
        elif verb == "publish":
            body, after = (
                {"unknot": 1, "id": random.choice(IDS), "data": 1},
                f"{after}.{random.choice(TYPES)}",
            )
        elif verb in ("reply", "503"):
            error = random.choice([None, None, {"code": "x", "message": "y"}])
            body = {"unknot": 1, "session": session, "data": 1, "done": random.random() < 0.7, "error": error}
            after = f"{agent}.reply.{random.choice(IDS)}"
        elif verb == "wait.close":
            body = {"session": session, "id": random.choice(WAITS), "generation": random.choice([None, 0, 1])}
        elif verb == "request.cancel":
            body = {"session": session, "id": random.choice(IDS)}
        elif verb == "bye":
            body = {"session": session, "drain_s": random.choice([0, 2.0, -1, 1e308])}
        else:
            by = random.choice(EXECUTIONS) if verb == "defer" else None
            body = {"session": session, "ids": random.sample(IDS, 2), "by": by}
        body = {name: value for name, value in body.items() if value is not None}
        if body and random.random() < 0.07:
            body[random.choice(list(body))] = random.choice(ODD)
        return body, after

    def _session(self, agent: str) -> str | None:
        name = agent.removeprefix("agent:")
        known = self._tokens.get(name)
        if self.live is not None and (alive := self.live(name)):
            known = self.random.choice(alive)
        return known if self.random.random() < 0.85 else self.random.choice([None, "nobody"])

    def _hello(self, agent: str) -> Body:
        random, name = self.random, agent.removeprefix("agent:")
        self._drawn += 1
        fresh = f"token-{self._drawn}"
        token = random.choice([fresh, fresh, fresh, self._tokens.get(name, fresh)])
        self._tokens[name] = token
        pools = [
            {
                "slots": random.choice([1, 1, 2, None]),
                "types": random.choice([None, ["work"], ["news"], ["a.>"], []]),
            }
            for _ in range(random.randint(0, 3))
        ]
        serves = random.choice([{"concurrency": random.choice([1, 1, 2])}, {"pools": pools}, {}])
        main = [{"slots": 1, "main": True}] if random.random() < 0.3 else []
        if "pools" in serves:
            serves = {"pools": pools + main}
        return {
            "session": token,
            "instance": random.choice([None, "one"]),
            "main_runs": random.random() < 0.5,
            "channels": random.choice([None, ["news"], ["news", "gone"]]),
            "reentrant": random.random() < 0.3,
            "exclusive": random.random() < 0.2,
            "heartbeat_s": random.choice([None, None, 0.5, 1e300]),
            "resume": random.random() < 0.1,
            "open": random.choice([None, random.sample(IDS, 3)]),
            "held": random.choice([None, self._held()]),
            "answered": random.choice([None, random.sample(IDS, 2)]),
            "seen": random.choice([0, 3, -5, 2**63 - 1]),
            **serves,
        }

    def _held(self) -> list[Body]:
        return [
            {"id": i, "state": self.random.choice(["running", "deferred"])}
            for i in self.random.sample(IDS, 2)
        ]

    def _event(self, agent: str) -> Body:
        random = self.random
        group = {"id": "g", "n": random.choice([1, 2, 3]), "need": random.choice([1, 2])}
        marks = {"blocking_wait": random.choice(["True", 1]), "wait_timeout": random.choice(["0.5", "1e999"])}
        return {
            "unknot": 1,
            "id": random.choice([*IDS, None]),
            "session": self._session(agent),
            "data": random.choice([None, 1, "x" * 300]),
            "execution": random.choice(EXECUTIONS),
            "strand": random.choice(STRANDS),
            "detached": random.random() < 0.3,
            "group": random.choice([None, None, group]),
            "timeout_s": random.choice([None, 5, 20, 1e-320, 1e308, -1]),
            "wait_for_target_s": random.choice([None, None, 3, 1e308, -4]),
            "metadata": random.choice([None, None, [1], "x", marks]),
            "accept_uncorrelated": random.choice([None, None, None, "work", ">"]),
            "response_to": random.choice([None, None, None, *IDS]),
        }

    def _heartbeat(self, agent: str) -> Body:
        seen = self.random.choice([0, 2, 100])
        return {
            "session": self._session(agent),
            "open": self.random.sample(IDS, 3),
            "held": self._held(),
            "seen": seen,
        }

    def _wait(self, agent: str) -> Body:
        random = self.random
        kinds = [
            "reply",
            "event",
            "agent",
            "human",
            "artifact",
            "lock",
            "permits",
            "approval",
            "task",
            "tool",
        ]
        names = [*IDS, *AGENTS, "work", ">", "a.*"]
        on = [
            {
                "kind": random.choice(kinds),
                "id": random.choice([*names, *THINGS]),
                "source": random.choice([None, None, "elm"]),
                "units": random.choice([1, 1, 2, 0, -1]),
                "lease_s": random.choice([None, 5, -1]),
            }
            for _ in range(random.randint(1, 3))
        ]
        return {
            "id": random.choice(WAITS),
            "session": self._session(agent),
            "on": on,
            "execution": random.choice(EXECUTIONS),
            "strand": random.choice(STRANDS),
            "detached": random.random() < 0.3,
            "generation": random.choice([0, 0, 1, -3]),
            "need": random.choice(["all", "any", 1]),
            "timeout_s": random.choice([None, 3, 20]),
        }

    def _of_resources(self, session: str | None) -> Body:
        """Fields of all those verbs together: each takes what it knows."""
        random = self.random
        things = random.sample(THINGS, random.randint(1, 2))
        holder = {"agent": random.choice(AGENTS), "execution": random.choice(EXECUTIONS)}
        asked = [
            {"id": one, "kind": random.choice(["lock", "permits"]), "units": random.choice([1, 1, 2, 0])}
            for one in things
        ]
        return {
            "session": session,
            "id": random.choice([*THINGS, *WAITS]),
            "artifact": random.choice(THINGS),
            "resource": random.choice(THINGS),
            "resources": asked,
            "kind": random.choice(["lock", "permits", "artifact", "task"]),
            "holder": random.choice([None, holder]),
            "from": random.choice(["human:ann", *AGENTS]),
            "decision": random.choice(["approved", "denied"]),
            "token": random.choice([0, 1, 2, 3, None]),
            "capacity": random.choice([None, 0, 1, 2]),
            "units": random.choice([1, 2, 0]),
            "lease_s": random.choice([None, 1, 30, -1, 1e308]),
            "until_s": random.choice([None, 3, -1, 1e308]),
            "timeout_s": random.choice([None, 3, 20]),
            "execution": random.choice(EXECUTIONS),
            "strand": random.choice(STRANDS),
            "detached": random.random() < 0.3,
            "data": random.choice([None, "x" * 100]),
        }

    def _facts(self, agent: str) -> Body:
        random = self.random
        alive = {"alive": random.choice([[], [""], ["s1"]]), "awaited": random.choice([[], ["s1", "s2"]])}
        return {
            "session": self._session(agent),
            "incident": random.choice(self.incidents[-3:]),
            "open": random.choice([random.sample(IDS, 3), list(WAITS)]),
            "requests": {random.choice(IDS): random.choice(["running", "deferred", "done"])},
            "strands": {random.choice([*IDS, "main"]): alive},
        }

    def _changed(self, payload: bytes) -> bytes:
        """*payload* with a few bytes changed, left out, repeated or put in."""
        random, changed = self.random, bytearray(payload)
        for _ in range(random.randint(1, 4)):
            at = random.randrange(len(changed) + 1)
            what = random.random()
            if what < 0.3:
                changed[at:at] = random.choice(
                    [b"\x00", b"\xff", b"\\u0000", b"[[", b"}", b'"', b"e999", b"-", b"NaN"]
                )
            elif what < 0.6:
                del changed[at : at + random.randint(1, 8)]
            elif what < 0.8 and at < len(changed):
                changed[at] = random.randrange(256)
            else:
                changed[at:at] = changed[at : at + random.randint(1, 64)]
        return bytes(changed)

    def _changed_subject(self, after: str) -> str:
        random = self.random
        at = random.randrange(len(after) + 1)
        put = random.choice(
            [".", "..", "*", ">", "@", ":", "\x00", "\x0b", "\u0435", "x" * 70, "x" * 1_100, "agent:"]
        )
        return after[:at] + put + after[at + random.randint(0, 3) :]
