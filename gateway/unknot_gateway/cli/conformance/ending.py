"""How it stops, how it begins anew, and what holds for all that it ever said."""

import asyncio
import json
from typing import Any, Final

import msgspec

from unknot_gateway.cli.conformance.beginning import begun
from unknot_gateway.cli.conformance.laws import Law
from unknot_gateway.cli.conformance.record import Message, require
from unknot_gateway.cli.conformance.stage import AGENT, Stage
from unknot_schemas.export_operations import operations
from unknot_schemas.ids import is_id
from unknot_schemas.limits import SUBJECT_BYTES_MAX

_STOPPED_S: Final = 10.0
_PATIENT_S: Final = 20.0
_EVENT_VERBS: Final = ("send", "ask", "request", "publish")
_NEED_SESSION: Final = ("request", "done", "defer", "facts", "heartbeat", "wait.open", "bye")
_BODIES: Final = {one.name: one.body for one in operations() if one.does == "send"}
_SHOWN: Final = 200


async def bye(stage: Stage) -> None:
    """At SIGTERM it says bye with a drain_s, answers what it holds, and ends with code 0."""
    question = await stage.others.ask("count", {"key": "bye", "s": 1.0})
    await stage.delivered(question.id)
    session = stage.session
    await stage.ask_to_stop()
    said = await stage.record.said_next(lambda said: said.verb == "bye", "bye", within_s=_STOPPED_S)
    require(said.body.get("session") == session, "bye does not name the session")
    require(said.body.get("drain_s", 0) > 0, "bye has no drain_s, though something still runs")
    require(await question.answer() == 1, "what it held was not answered")
    code = await stage.exit_code(_STOPPED_S)
    require(code == 0, f"it ended with code {code}")


async def second_life(stage: Stage) -> None:
    """A second life has another session token, and says hello until a gateway is there."""
    record = stage.record
    await begun(stage)
    before = {str(said.body.get("session")) for said in record.of("hello")}
    await stage.end_program()
    await stage.kill_gateway()
    at = record.number
    await stage.start_program()
    for _ in range(2):
        hello = await record.said_next(
            lambda said: said.verb == "hello",
            "hello while no gateway is there",
            after=at,
            within_s=_PATIENT_S,
        )
        at = hello.number
    require(stage.session not in before, "the token is that of its first life")
    await stage.start_gateway()
    require(await (await stage.others.ask("echo", 2)).answer() == 2, "it does not serve")


async def subjects_own(stage: Stage) -> None:
    """It publishes under its own name only, and subscribes only what its NATS user may: permissions are the policy."""
    await begun(stage)
    for said in stage.record.said:
        own = said.read is not None and said.read.agent == AGENT
        require(own, f"it published to {said.subject!r}")
        length = len(said.subject) + len(said.reply)
        require(length <= SUBJECT_BYTES_MAX, f"subjects of {length} characters: {said.subject[:_SHOWN]!r}")
    root = stage.subjects.root
    allowed = (f"{root}.out.{AGENT}.", f"{root}.channel.", f"{root}.topic.", f"_INBOX.{AGENT}.")
    for each in stage.record.subscribed:
        require(each.subject.startswith(allowed), f"it subscribed {each.subject!r}")


async def inbox_own(stage: Stage) -> None:
    """Its NATS reply subjects are under _INBOX.<its own name>."""
    await begun(stage)
    for said in stage.record.said:
        require(
            not said.reply or said.reply.startswith(f"_INBOX.{AGENT}."), f"a reply subject is {said.reply!r}"
        )


async def ids_legal(stage: Stage) -> None:
    """Every id is legal, and one id has one content."""
    await begun(stage)
    contents: dict[str, str] = {}
    for said in stage.record.said:
        for name in ("id", "session", "execution", "strand", "run"):
            value = said.body.get(name)
            strand = name == "strand" and value == ""
            legal = value is None or strand or (isinstance(value, str) and is_id(value))
            require(legal, f"{name} {value!r} of {said.verb} is no id")
        if said.verb in _EVENT_VERBS and said.body.get("id") is not None:
            content = json.dumps([said.subject, said.data])
            known = contents.setdefault(said.body["id"], content)
            require(known == content, f"the id {said.body['id']!r} has two contents")


async def bodies_typed(stage: Stage) -> None:
    """Every body is JSON of the types that the wire says."""
    await begun(stage)
    for said in stage.record.said:
        if said.verb in (*_EVENT_VERBS, "reply") and "unknot" not in said.body:
            _read(said, Any)
        elif said.verb in _BODIES:
            _read(said, _BODIES[said.verb])


def _read(said: Message, wanted: Any) -> None:
    why = ""
    try:
        if said.payload:
            msgspec.json.decode(said.payload, type=wanted)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        why = str(error)
    require(not why, f"the body of a {said.verb}: {why}: {said.payload[:_SHOWN]!r}")


async def session_named(stage: Stage) -> None:
    """Whatever makes state names the session that said hello last."""
    await begun(stage)
    session: Any = None
    for said in stage.record.said:
        if said.verb == "hello":
            session = said.body.get("session")
        elif said.verb in _NEED_SESSION:
            named = said.body.get("session")
            require(named == session, f"{said.verb} names session {named!r}")


async def answers_counted(stage: Stage) -> None:
    """No request has more answers than deliveries, and all its answers are the same."""
    await begun(stage)
    await asyncio.sleep(0)
    ids = {said.read.request_id for said in stage.record.of("reply") if said.read is not None}
    for id in ids:
        answers, copies = stage.record.answers(id), stage.record.deliveries(id)
        require(bool(copies), f"it answered {id!r}, which was never delivered to it")
        require(
            len(answers) <= len(copies), f"{len(answers)} answers to {len(copies)} deliveries of one request"
        )
        data = {json.dumps([said.data, said.body.get("error")], sort_keys=True) for said in answers}
        require(len(data) == 1, f"it gave different answers to one request: {sorted(data)}")


LAWS: Final = (
    Law("bye.drained", "end", bye),
    Law("life.second", "end", second_life),
    Law("subjects.own", "whole", subjects_own),
    Law("inbox.own", "whole", inbox_own),
    Law("ids.legal", "whole", ids_legal),
    Law("bodies.typed", "whole", bodies_typed),
    Law("session.named", "whole", session_named),
    Law("answers.counted", "whole", answers_counted),
)
