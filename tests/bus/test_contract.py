"""What a bus promises, shown on NATS and in the simulator's memory alike.

The simulator's promises less than one NATS server: messages of different connections overtake each other, as they do in
a cluster. What is here holds for both, and nothing that unknot relies on is missing.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import nats.errors
import pytest

from tests.bus.nets import Law, Net, in_memory, on_nats
from unknot_gateway.shell.bus import Message

Shown = Callable[[Law], None]
IN, OUT = "unknot.n.in", "unknot.n.out"


@pytest.fixture(params=[on_nats, in_memory], ids=["NATS", "memory"])
def shown(request: pytest.FixtureRequest) -> Shown:
    return request.param


class Ear:
    """What one subscription took, in order."""

    def __init__(self) -> None:
        self.messages: list[Any] = []

    async def take(self, message: Any) -> None:
        self.messages.append(message)

    @property
    def data(self) -> list[bytes]:
        return [message.data for message in self.messages]

    @property
    def subjects(self) -> list[str]:
        return [message.subject for message in self.messages]


async def heard(end: Any, subject: str) -> Ear:
    """What comes to *end* for *subject* from now on."""
    ear = Ear()
    await end.subscribe(subject, cb=ear.take)
    return ear


async def heard_by_bus(bus: Any, subject: str) -> Ear:
    """What comes to *bus*, as the gateway takes it."""
    ear = Ear()
    await bus.listen(subject, ear.messages.append)
    return ear


NUMBERS = [b"%d" % number for number in range(300)]


# ---------------------------------------------------------------------------- order and copies


def test_what_one_connection_sends_arrives_in_that_order_at_every_subscription(shown: Shown) -> None:
    async def law(net: Net) -> None:
        sender, one, other = await net.end(), await net.end(), await net.end()
        ears = [
            await heard(one, f"{IN}.>"),
            await heard(other, f"{IN}.a.>"),
            await heard(other, f"{IN}.a.send"),
        ]
        await net.settled()
        for number in NUMBERS:
            await sender.publish(f"{IN}.a.send", number)
        await net.settled()
        for ear in ears:
            assert ear.data == NUMBERS

    shown(law)


def test_what_a_bus_sends_at_once_arrives_in_that_order(shown: Shown) -> None:
    async def law(net: Net) -> None:
        bus, end = await net.bus(), await net.end()
        ear = await heard(end, f"{OUT}.a.s.>")
        await net.settled()
        await bus.publish(
            [Message(f"{OUT}.a.s.{'event.x' if number != b'7' else 'outcome'}", number) for number in NUMBERS]
        )
        await net.settled()
        assert ear.data == NUMBERS

    shown(law)


def test_a_bus_takes_what_one_connection_sends_in_that_order_whatever_the_subject(shown: Shown) -> None:
    async def law(net: Net) -> None:
        bus, end = await net.bus(), await net.end()
        ear = await heard_by_bus(bus, f"{IN}.>")
        await net.settled()
        for number in NUMBERS:
            await end.publish(f"{IN}.a.{'facts' if int(number) % 3 else 'request.b.x'}", number)
        await net.settled()
        assert ear.data == NUMBERS

    shown(law)


def test_a_bus_that_takes_by_a_task_hears_what_it_hears_at_once(shown: Shown) -> None:
    async def law(net: Net) -> None:
        bus, end = await net.bus(), await net.end()
        at_once, by_task = await heard_by_bus(bus, f"{IN}.>"), Ear()
        await bus.subscribe(f"{IN}.>", by_task.take)
        await net.settled()
        for number in NUMBERS:
            await end.publish(f"{IN}.a.send", number, reply=f"_INBOX.a.{number.decode()}")
        await net.settled()
        for ear in (at_once, by_task):
            assert ear.data == NUMBERS
            assert [message.reply for message in ear.messages] == [f"_INBOX.a.{n.decode()}" for n in NUMBERS]

    shown(law)


def test_every_subscription_that_fits_gets_a_copy_also_of_what_its_own_connection_sends(shown: Shown) -> None:
    async def law(net: Net) -> None:
        one, other = await net.end(), await net.end()
        ears = [await heard(end, f"{IN}.a.*") for end in (one, one, other)]
        await net.settled()
        await one.publish(f"{IN}.a.bye", b"1")
        await net.settled()
        assert [ear.data for ear in ears] == [[b"1"]] * 3

    shown(law)


def test_bytes_arrive_as_they_are(shown: Shown) -> None:
    async def law(net: Net) -> None:
        one, other = await net.end(), await net.end()
        ear = await heard(other, f"{IN}.a.send")
        await net.settled()
        sent = [b"", b"\0\r\nMSG x 1 1\r\n", bytes(range(256)), b"x" * one.max_payload]
        for data in sent:
            await one.publish(f"{IN}.a.send", data)
        await net.settled()
        assert ear.data == sent

    shown(law)


# ---------------------------------------------------------------------------- subjects


@pytest.mark.parametrize(
    ("pattern", "fits", "fits_not"),
    [
        (f"{IN}.a.bye", [f"{IN}.a.bye"], [f"{IN}.a.bye.x", f"{IN}.a", f"{IN}.A.bye", f"{IN}.b.bye"]),
        (f"{IN}.>", [f"{IN}.a.bye", f"{IN}.a"], [IN, "unknot.n.inn.a", "unknot.m.in.a"]),
        (
            f"{OUT}.a.s.>",
            [f"{OUT}.a.s.event.x.y", f"{OUT}.a.s.outcome"],
            [f"{OUT}.a.s", f"{OUT}.a.s2.outcome"],
        ),
        ("_INBOX.a.*", ["_INBOX.a.1", "_INBOX.a.2"], ["_INBOX.a", "_INBOX.a.1.2", "_INBOX.b.1"]),
        ("unknot.n.topic.x.*", ["unknot.n.topic.x.y"], ["unknot.n.topic.x", "unknot.n.topic.x.y.z"]),
        (
            "unknot.n.topic.*.done",
            ["unknot.n.topic.x.done"],
            ["unknot.n.topic.x.y.done", "unknot.n.topic.done", "unknot.n.topic.x.DONE"],
        ),
        ("unknot.n.topic.*.y.>", ["unknot.n.topic.x.y.z"], ["unknot.n.topic.x.y", "unknot.n.topic.x.z.y"]),
    ],
)
def test_a_subscription_gets_what_its_pattern_fits(
    shown: Shown, pattern: str, fits: list[str], fits_not: list[str]
) -> None:
    async def law(net: Net) -> None:
        one, other = await net.end(), await net.end()
        ear = await heard(other, pattern)
        await net.settled()
        for subject in (*fits_not, *fits):
            await one.publish(subject, b"")
        await net.settled()
        assert ear.subjects == fits

    shown(law)


# ---------------------------------------------------------------------------- questions and answers


def test_a_reply_subject_arrives_as_it_was_given_and_answers_come_there(shown: Shown) -> None:
    async def law(net: Net) -> None:
        bus, end = await net.bus(), await net.end()
        answers, questions = await heard(end, "_INBOX.a.*"), await heard_by_bus(bus, f"{IN}.>")
        await net.settled()
        await end.publish(f"{IN}.a.hello", b"?", reply="_INBOX.a.7")
        await end.publish(f"{IN}.a.bye", b"no answer, please")
        await net.settled()
        assert [message.reply for message in questions.messages] == ["_INBOX.a.7", ""]
        await bus.publish([Message("_INBOX.a.7", b"!")])
        await net.settled()
        assert (answers.data, answers.subjects) == ([b"!"], ["_INBOX.a.7"])
        assert not answers.messages[0].headers

    shown(law)


def test_a_question_that_nobody_hears_is_answered_with_503_and_no_body(shown: Shown) -> None:
    async def law(net: Net) -> None:
        bus, end, third = await net.bus(), await net.end(), await net.end()
        at_bus, at_end = await heard_by_bus(bus, f"{IN}.>"), await heard(end, "_INBOX.a.*")
        at_third = await heard(third, f"{IN}.>")
        await net.settled()
        await bus.publish([Message(f"{OUT}.gone.0.event.x", b"1", f"{IN}.gone.reply.r1")])
        await end.publish("unknot.m.in.a.hello", b"2", reply="_INBOX.a.1")
        await net.settled()
        for ear, subject in ((at_bus, f"{IN}.gone.reply.r1"), (at_end, "_INBOX.a.1")):
            assert (ear.data, ear.subjects) == ([b""], [subject])
            assert ear.messages[0].headers["Status"] == "503"
        assert at_third.data == [], "it is the asker's alone"

    shown(law)


def test_a_question_that_somebody_hears_has_no_503_even_if_it_is_never_answered(shown: Shown) -> None:
    async def law(net: Net) -> None:
        asker, spy = await net.end(), await net.end()
        answers, _ = await heard(asker, "_INBOX.a.*"), await heard(spy, f"{OUT}.>")
        await net.settled()
        await asker.publish(f"{OUT}.gone.0.event.x", b"1", reply="_INBOX.a.1")
        await net.settled()
        assert answers.data == []

    shown(law)


def test_an_answer_for_nobody_has_no_503_of_its_own(shown: Shown) -> None:
    async def law(net: Net) -> None:
        asker = await net.end()
        everything = await heard(asker, "_INBOX.a.*")
        await net.settled()
        await asker.publish("unknot.m.nobody", b"1")
        await asker.publish("unknot.m.nobody", b"2", reply="_INBOX.nobody.either")
        await asker.publish("_INBOX.a.mark", b"the last")
        await net.settled()
        assert everything.data == [b"the last"]
        assert asker.is_connected

    shown(law)


# ---------------------------------------------------------------------------- takers


def test_a_subscription_hands_over_one_at_a_time_and_holds_up_no_other(shown: Shown) -> None:
    async def law(net: Net) -> None:
        sender, end = await net.end(), await net.end()
        go_on, began, ended = asyncio.Event(), list[bytes](), list[bytes]()

        async def slow(message: Any) -> None:
            began.append(message.data)
            await go_on.wait()
            ended.append(message.data)

        await end.subscribe(f"{IN}.a.>", cb=slow)
        quick = await heard(end, f"{IN}.>")
        await net.settled()
        for number in NUMBERS[:3]:
            await sender.publish(f"{IN}.a.send", number)
        await net.settled()
        assert (began, ended, quick.data) == (NUMBERS[:1], [], NUMBERS[:3])
        go_on.set()
        await net.settled()
        assert (began, ended) == (NUMBERS[:3], NUMBERS[:3])

    shown(law)


def test_after_unsubscribing_nothing_comes_and_the_others_go_on(shown: Shown) -> None:
    async def law(net: Net) -> None:
        one, other = await net.end(), await net.end()
        left, stayed = Ear(), await heard(other, f"{IN}.>")
        subscription = await other.subscribe(f"{IN}.>", cb=left.take)
        await net.settled()
        await one.publish(f"{IN}.a.send", b"1")
        await net.settled()
        await subscription.unsubscribe()
        await net.settled()
        await one.publish(f"{IN}.a.send", b"2")
        await net.settled()
        assert (left.data, stayed.data) == ([b"1"], [b"1", b"2"])
        with pytest.raises(nats.errors.Error):
            await subscription.unsubscribe()

    shown(law)


def test_a_stopped_intake_hands_over_what_had_come_and_takes_nothing_new(shown: Shown) -> None:
    async def law(net: Net) -> None:
        bus, end = await net.bus(), await net.end()
        ear = await heard_by_bus(bus, f"{IN}.>")
        answers = await heard(end, "_INBOX.a.*")
        await net.settled()
        for number in NUMBERS:
            await end.publish(f"{IN}.a.send", number)
        await net.sent(end)
        await bus.stop_intake()
        await end.publish(f"{IN}.a.send", b"late", reply="_INBOX.a.1")
        await net.settled()
        assert ear.data == NUMBERS
        assert answers.messages[0].headers["Status"] == "503", "nobody is there any more"
        await bus.publish([Message("_INBOX.a.2", b"it still speaks")])
        await net.settled()
        assert answers.data[1:] == [b"it still speaks"]

    shown(law)


# ---------------------------------------------------------------------------- bounds and ends


def test_what_is_too_large_is_refused_here_and_closes_nothing(shown: Shown) -> None:
    async def law(net: Net) -> None:
        bus, end = await net.bus(), await net.end()
        ear = await heard(end, f"{OUT}.a.s.>")
        await net.settled()
        large = b"x" * (bus.max_payload + 1)
        await bus.publish([Message(f"{OUT}.a.s.outcome", large), Message(f"{OUT}.a.s.outcome", b"1")])
        with pytest.raises(nats.errors.MaxPayloadError):
            await end.publish(f"{OUT}.a.s.outcome", large)
        await end.publish(f"{OUT}.a.s.outcome", b"2")
        await net.settled()
        assert sorted(ear.data) == [b"1", b"2"]
        assert bus.counters["unsent"] == 1

    shown(law)


def test_a_barrier_returns_when_everybody_else_can_be_heard(shown: Shown) -> None:
    async def law(net: Net) -> None:
        bus, end = await net.bus(), await net.end()
        ear = await heard_by_bus(bus, f"{IN}.>")
        await bus.barrier()
        await end.publish(f"{IN}.a.send", b"1")
        await net.settled()
        assert ear.data == [b"1"]

    shown(law)


def test_a_closed_end_refuses_and_hears_nothing(shown: Shown) -> None:
    async def law(net: Net) -> None:
        one, other = await net.end(), await net.end()
        ear, at_other = await heard(one, f"{IN}.>"), await heard(other, f"{IN}.>")
        await net.settled()
        await one.publish(f"{IN}.a.bye", b"1")
        await net.settled()
        await one.close()
        assert one.is_closed
        assert not one.is_connected
        for call in (one.publish(f"{IN}.a.bye", b"2"), one.subscribe(f"{IN}.>", cb=ear.take), one.flush()):
            with pytest.raises(nats.errors.ConnectionClosedError):
                await call
        await other.publish(f"{IN}.a.bye", b"3")
        await net.settled()
        assert (ear.data, sorted(at_other.data)) == ([b"1"], [b"1", b"3"])
        await one.close()

    shown(law)


def test_what_was_sent_before_closing_leaves(shown: Shown) -> None:
    async def law(net: Net) -> None:
        one, other, bus = await net.end(), await net.end(), await net.bus()
        ear = await heard(other, f"{IN}.>")
        await net.settled()
        await one.publish(f"{IN}.a.bye", b"1")
        await one.close()
        await bus.publish([Message(f"{IN}.b.bye", b"2")])
        await bus.close()
        await net.settled()
        assert sorted(ear.data) == [b"1", b"2"]

    shown(law)


def test_a_closed_bus_counts_what_it_cannot_send_and_does_not_raise(shown: Shown) -> None:
    async def law(net: Net) -> None:
        bus, end = await net.bus(), await net.end()
        ear = await heard(end, f"{OUT}.>")
        await net.settled()
        await bus.close()
        await bus.publish([Message(f"{OUT}.a.s.outcome", b"1"), Message(f"{OUT}.a.s.outcome", b"2")])
        await net.settled()
        assert ear.data == []
        assert bus.counters["unsent"] == 2

    shown(law)
