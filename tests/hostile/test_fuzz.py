"""Hostile messages at random: nothing raises, tables keep their bounds, others are answered. More: `make fuzz`."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hostile import fuzz
from tests.hostile.over_nats import play_over_nats
from tests.hostile.test_limits import SUBJECTS
from unknot_gateway.core.facts import Fact
from unknot_gateway.shell.ingress import Ingress
from unknot_gateway.shell.parsing import Incoming
from unknot_schemas.subjects import EVENT_VERBS, SESSION_VERBS

SEEDS = range(12)
NAMES = (
    "unknot",
    "id",
    "session",
    "data",
    "group",
    "n",
    "need",
    "metadata",
    "on",
    "kind",
    "open",
    "held",
    "pools",
)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=70)
    | st.sampled_from(["1", "a"])
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=5), inner)
    ),
    max_leaves=12,
)
BODIES = st.binary(max_size=100) | st.dictionaries(st.sampled_from(NAMES), VALUES).map(msgspec.json.encode)
ENDS = st.sampled_from(["", ".elm.x", ".r1", ".@news.x", ".x", ".elm", "..", ".*", ".>"]) | st.text(
    max_size=20
)
VERBS = st.sampled_from(sorted(EVENT_VERBS | SESSION_VERBS | {"reply", "publish", "dance"}))
AGENTS = st.sampled_from(["birch", "agent:birch", "gateway", "@news", ""]) | st.text(max_size=70)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_message_can_raise_fill_a_table_or_keep_others_waiting(seed: int) -> None:
    figures = fuzz.play(seed, 500)
    assert figures.answered + figures.full == figures.asked


@given(agent=AGENTS, verb=VERBS, end=ENDS, reply=st.text(max_size=30), body=BODIES, nobody=st.booleans())
def test_whatever_comes_is_read_as_a_fact(
    agent: str, verb: str, end: str, reply: str, body: bytes, nobody: bool
) -> None:
    headers = {"Status": "503"} if nobody else None
    subject = f"{SUBJECTS.root}.in.{agent}.{verb}{end}"
    reader = Ingress(SUBJECTS)
    assert isinstance(reader.fact(subject, reply, body, headers), Fact)
    shed = reader.shed(Incoming(subject, reply, body, headers))
    assert shed is None or isinstance(shed, Fact)


async def test_no_letter_ends_a_connection_of_a_real_gateway() -> None:
    figures = await play_over_nats(1, 3_000)
    assert figures["answered"] >= 15
