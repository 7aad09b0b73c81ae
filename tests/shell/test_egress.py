"""From effects to messages: where they go, what they say, and what is never sent."""

import json
import re

import pytest

from unknot_gateway.core.effects import (
    Answer,
    AnyEffect,
    Broadcast,
    Deliver,
    SendControl,
    SendNotice,
    SendOutcome,
)
from unknot_gateway.shell.egress import Egress
from unknot_schemas import Subjects, bodies
from unknot_schemas.ids import AgentId, SessionId

ELM, S1 = AgentId("elm"), SessionId("s1")
EVENT = bodies.Delivered(
    "e1", "work.do", "birch", "elm", bodies.Raw(b'{"a":1}'), requires_response=True, epoch=7
)
OUTCOME = bodies.Outcome("r1", "reply", "yes", 7, event=EVENT)
NOW = 1_796_060_124.987


def egress(max_payload: int = 1024) -> Egress:
    return Egress(Subjects("net"), max_payload, lambda: NOW)


@pytest.mark.parametrize(
    ("effect", "subject", "reply"),
    [
        (Deliver(ELM, S1, EVENT), "unknot.net.out.elm.s1.event.work.do", "unknot.net.in.elm.reply.e1"),
        (Deliver(ELM, S1, EVENT, answerable=False), "unknot.net.out.elm.s1.event.work.do", ""),
        (Broadcast("team", EVENT), "unknot.net.channel.team.work.do", ""),
        (Broadcast(None, EVENT), "unknot.net.topic.work.do", ""),
        (SendOutcome(ELM, S1, OUTCOME), "unknot.net.out.elm.s1.outcome", ""),
        (SendOutcome(ELM, S1, OUTCOME, "_INBOX.elm.1"), "_INBOX.elm.1", ""),
        (Answer("_INBOX.elm.1", bodies.Receipt(ok=True, id="e1")), "_INBOX.elm.1", ""),
        (
            SendControl(ELM, S1, "request.abandoned", bodies.Abandoned("r1", "expired")),
            "unknot.net.out.elm.s1.control.request.abandoned",
            "",
        ),
        (SendNotice("agent.wait.retracted", {"a": 1}), "unknot.net.notice.agent.wait.retracted", ""),
    ],
)
def test_every_effect_has_its_subject(effect: AnyEffect, subject: str, reply: str) -> None:
    message = egress().message(effect)
    assert message is not None
    assert (message.subject, message.reply) == (subject, reply)


@pytest.mark.parametrize("effect", [Deliver(ELM, S1, EVENT), Broadcast(None, EVENT)])
def test_a_delivered_event_says_when(effect: AnyEffect) -> None:
    message = egress().message(effect)
    assert message is not None
    body = json.loads(message.payload)
    assert body["time"] == "2026-11-30T17:35:24.987Z"
    assert body["data"] == {"a": 1}
    assert body["unknot"] == 1


@pytest.mark.parametrize("error", [None, bodies.Error("handler_failed", "it broke")])
def test_an_answer_says_when(error: bodies.Error | None) -> None:
    outcome = bodies.Outcome("r1", "failed" if error else "reply", "yes", 7, event=EVENT, error=error)
    message = egress().message(SendOutcome(ELM, S1, outcome))
    assert message is not None
    body = json.loads(message.payload)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", body["event"]["time"])
    assert "time" not in body
    assert (body.get("error") or {}).get("code") == (error.code if error else None)


def test_a_time_once_given_is_kept() -> None:
    event = bodies.Delivered("e1", "a", "b", "c", bodies.NULL, True, 7, time="2000-01-01T00:00:00.000Z")
    for effect in (
        Deliver(ELM, S1, event),
        SendOutcome(ELM, S1, bodies.Outcome("r", "reply", "yes", 7, event=event)),
    ):
        message = egress().message(effect)
        assert message is not None
        assert message.payload.count(b'"time"') == 1


def test_what_the_server_would_not_take_is_never_sent() -> None:
    """One such message would close the connection for good."""
    small = egress(max_payload=100)
    assert small.message(Deliver(ELM, S1, EVENT)) is None
    assert small.counters["payloads_too_large"] == 1
    assert small.message(Answer("_INBOX." + "x" * 2_000, bodies.Receipt(ok=True))) is None
    assert small.counters["subjects_too_long"] == 1
