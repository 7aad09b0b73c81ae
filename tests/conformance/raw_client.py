"""A client in plain NATS that plays the role; each argument is one thing that it then does wrong."""

import asyncio
import contextlib
import json
import os
import secrets
import signal
import sys
from collections import Counter
from typing import Any

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg

WRONG = set(sys.argv[1:])
AGENT, NETWORK = os.environ["UNKNOT_AGENT"], os.environ["UNKNOT_NETWORK"]
INTERVAL_S = float(os.environ["UNKNOT_HEARTBEAT_S"])
OWN = f"unknot.{NETWORK}.in.{AGENT}."
DRAIN_S = 5.0
KNOWN = {
    "unknot", "id", "type", "source", "target", "data", "requires_response", "response_to", "run", "metadata", "time",
    "deadline_in_s", "epoch", "seq", "for", "redelivered", "traceparent", "tracestate",
}  # fmt: skip

Json = dict[str, Any]


class Open:
    """One own request."""

    def __init__(self, subject: str, payload: bytes, now: float) -> None:
        self.subject, self.payload, self.since = subject, payload, now
        self.outcomes: asyncio.Queue[Json] = asyncio.Queue()


class Pupil:
    def __init__(self, nc: Client) -> None:
        self.nc = nc
        self.loop = asyncio.get_running_loop()
        self.session = "always-the-same-one" if "old_token" in WRONG else secrets.token_urlsafe(16)
        if "short_token" in WRONG:
            self.session = self.session[:8]
        self.held: dict[str, tuple[str, float]] = {}
        self.waiting: dict[str, str] = {}
        """Execution -> the request that it waits for."""
        self.answers: dict[str, bytes | None] = {}
        self.abandoned: set[str] = set()
        self.open: dict[str, Open] = {}
        self.seqs: set[int] = set()
        self.counted: Counter[str] = Counter()
        self.tasks: set[asyncio.Task[None]] = set()
        self.leaving = False

    # -- the session

    async def begin(self) -> None:
        out = f"unknot.{NETWORK}.out.{AGENT}.{self.session}.>"
        if "late_subscription" in WRONG:
            self.start(self.later(0.3, out))
        else:
            await self.nc.subscribe(out, cb=self.take, queue="pupils" if "queue_group" in WRONG else "")
        while not await self.hello(resume=False):  # noqa: ASYNC110  # nobody says when a gateway is there
            await asyncio.sleep(0.1)
        self.start(self.beat_for_ever())

    async def later(self, s: float, out: str) -> None:
        await asyncio.sleep(s)
        await self.nc.subscribe(out, cb=self.take)

    async def hello(self, *, resume: bool) -> bool:
        pools = [{"slots": 8 if "few_slots" in WRONG else 64, "types": ["conformance.>"]}]
        body: Json = {"session": self.session, "protocol": 1, "pools": pools, "heartbeat_s": INTERVAL_S}
        if resume and "new_session" in WRONG:
            await self.nc.subscribe(f"unknot.{NETWORK}.out.{AGENT}.{self.session}x.>", cb=self.take)
            self.session = body["session"] = f"{self.session}x"
        elif resume:
            answered = [] if "forgets_answers" in WRONG else list(self.answers)
            body |= {
                "resume": True,
                "held": self.named_held(-1),
                "open": list(self.open),
                "answered": answered,
            }
            body["seen"] = self.seen
        welcome = await self.call("hello", body)
        return bool(welcome and welcome["ok"])

    async def call(self, verb: str, body: Json) -> Json | None:
        try:
            msg = await self.nc.request(OWN + verb, json.dumps(body).encode(), timeout=1.0)
        except (nats.errors.Error, TimeoutError):
            return None
        return json.loads(msg.data)

    async def say(self, verb: str, **body: Any) -> None:
        await self.nc.publish(OWN + verb, json.dumps({"session": self.session, **body}).encode())

    async def beat_for_ever(self) -> None:
        while True:
            await asyncio.sleep(4 * INTERVAL_S if "slow_heart" in WRONG else INTERVAL_S)
            self.start(self.beat())

    async def beat(self) -> None:
        now = self.loop.time()
        named = [id for id, entry in self.open.items() if now - entry.since > INTERVAL_S]
        body = {
            "session": self.session,
            "open": named,
            "held": self.named_held(INTERVAL_S),
            "seen": self.seen,
        }
        if "hides_held" in WRONG:
            body["held"] = []
        pulse = await self.call("heartbeat", body)
        if pulse is not None and not pulse["ok"]:
            await self.hello(resume=True)
            await self.beat()
            return
        for id in (pulse or {}).get("unknown", ()):
            if id in self.open and "sends_once" not in WRONG:
                await self.nc.publish(self.open[id].subject, self.open[id].payload)

    def named_held(self, older_s: float) -> list[Json]:
        now = self.loop.time()
        return [
            {"id": id, "state": state} for id, (state, since) in self.held.items() if now - since > older_s
        ]

    @property
    def seen(self) -> int:
        last = 0
        if "sees_the_last" in WRONG:
            return max(self.seqs, default=0)
        while last + 1 in self.seqs:
            last += 1
        return last

    # -- what comes

    async def take(self, msg: Msg) -> None:
        kind, body = msg.subject.split(".")[5], json.loads(msg.data)
        if kind == "event":
            self.take_event(body)
        elif kind == "outcome":
            self.settle(body)
        elif msg.subject.endswith(".control.confirm"):
            await self.give_facts(body)
        elif msg.subject.endswith(".control.request.abandoned"):
            self.abandoned.add(body["request_id"])

    def take_event(self, event: Json) -> None:
        id = event["id"]
        if "strict" in WRONG and set(event) - KNOWN:
            return
        self.seqs.add(event.get("seq", 0))
        if "runs_copies" not in WRONG:
            if id in self.held:
                return
            if id in self.answers:
                self.start(self.answer_again(id))
                return
        if id in self.abandoned and "runs_abandoned" not in WRONG:
            self.start(self.say("done", ids=[id]))
            return
        self.held[id] = ("running", self.loop.time())
        self.start(self.handle(event))

    async def answer_again(self, id: str) -> None:
        payload = self.answers[id]
        if payload is None:
            await self.say("done", ids=[id])
        elif "silent_on_copies" not in WRONG:
            await self.nc.publish(f"{OWN}reply.{id}", payload)

    def settle(self, outcome: Json) -> None:
        if outcome["request_id"] in self.open:
            self.open[outcome["request_id"]].outcomes.put_nowait(outcome)

    async def give_facts(self, asked: Json) -> None:
        if "late_facts" in WRONG:
            self.start(self.facts_later(asked))
            return
        ids = {wait["id"] for wait in asked["waits"]}
        states = {id: self.held[id][0] for id in asked["requests"] if id in self.held}
        done = {id: "done" for id in asked["requests"] if id in self.answers}
        strands = {id: {"alive": [] if id in self.waiting else [""]} for id in asked.get("executions", ())}
        still = [] if "denies_waits" in WRONG else [id for id in ids if id in self.open]
        await self.say(
            "facts", incident=asked["incident"], open=still, requests=done | states, strands=strands
        )

    async def facts_later(self, asked: Json) -> None:
        await asyncio.sleep(0.6)
        WRONG.discard("late_facts")
        await self.give_facts(asked)
        WRONG.add("late_facts")

    # -- the role

    async def handle(self, event: Json) -> None:
        data, role = event["data"], event["type"].removeprefix("conformance.")
        if role == "count":
            self.counted[data["key"]] += data.get("add", 1)
            ran = self.counted[data["key"]]
            await asyncio.sleep(data.get("s", 0))
            await self.returned(event, ran)
        elif role == "fail":
            await self.reply(event["id"], error={"code": "handler_failed", "message": data["message"]})
        elif role == "early":
            await self.reply(event["id"], data="early", done=False)
            await asyncio.sleep(data["s"])
            self.held.pop(event["id"], None)
            await self.say("done", ids=[event["id"]])
        elif role == "defer":
            self.held[event["id"]] = ("deferred", self.held[event["id"]][1])
            await self.say("defer", ids=[event["id"]])
            await asyncio.sleep(data["s"])
            await self.reply(event["id"], data=data["data"])
        elif role == "ask":
            await self.returned(event, await self.ask(event["id"], data))
        else:
            await self.returned(event, data)

    async def returned(self, event: Json, data: Any) -> None:
        if event["requires_response"]:
            await self.reply(event["id"], data=data)
            if "answers_twice" in WRONG:
                await self.reply(event["id"], data=data)
        else:
            self.held.pop(event["id"], None)
            self.answers[event["id"]] = None
            if "never_done" not in WRONG:
                await self.say("done", ids=[event["id"]])

    async def reply(self, id: str, *, done: bool = True, **fields: Any) -> None:
        envelope = {"unknot": 1, "session": self.session, **fields, **({} if done else {"done": False})}
        self.answers[id] = json.dumps(envelope).encode()
        if done:
            self.held.pop(id, None)
        await self.nc.publish(f"{OWN}reply.{id}", self.answers[id] or b"")

    async def ask(self, execution: str, data: Json) -> Json:
        id = secrets.token_urlsafe(9)
        subject = f"{OWN}request.{data['target']}.{data['type']}"
        own = {"id": id, "session": self.session, "timeout_s": data["timeout_s"], "data": data["data"]}
        body = {"unknot": 1, **own, "execution": "main" if "no_execution" in WRONG else execution}
        entry = self.open[id] = Open(subject, json.dumps(body).encode(), self.loop.time())
        self.waiting[execution] = id
        try:
            await self.nc.publish(entry.subject, entry.payload)
            own_s = 30.0 if "no_clock" in WRONG else data["timeout_s"] + 1.0
            outcome = await asyncio.wait_for(entry.outcomes.get(), own_s)
            if "last_outcome" in WRONG:
                with contextlib.suppress(TimeoutError):
                    outcome = await asyncio.wait_for(entry.outcomes.get(), 0.2)
        except TimeoutError:
            await self.say("request.cancel", id=id)
            return {"outcome": "expired", "code": "expired"}
        finally:
            del self.open[id], self.waiting[execution]
        code = outcome.get("error", {}).get("code")
        return {"outcome": outcome["outcome"], "data": outcome.get("event", {}).get("data"), "code": code}

    # -- the end

    async def leave(self) -> None:
        if "no_goodbye" not in WRONG:
            await self.say("bye", drain_s=DRAIN_S)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_S):
                while self.held:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
        for task in self.tasks:
            task.cancel()
        await self.nc.flush()
        await self.nc.close()

    def start(self, work: Any) -> None:
        self.tasks.add(task := asyncio.create_task(work))
        task.add_done_callback(self.tasks.discard)


async def main() -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    inbox = "_INBOX" if "shared_inbox" in WRONG else f"_INBOX.{AGENT}"
    nc = await nats.connect(
        os.environ["UNKNOT_URL"], inbox_prefix=inbox, max_reconnect_attempts=-1, reconnect_time_wait=0.1
    )
    pupil = Pupil(nc)
    beginning = asyncio.create_task(pupil.begin())
    await stop.wait()
    beginning.cancel()
    await pupil.leave()


if __name__ == "__main__":
    asyncio.run(main())
