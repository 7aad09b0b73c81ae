"""Laws that a hostile reader found broken, or feared broken."""

from tests.core.stage import Stage
from unknot_gateway.core.limits import Limits
from unknot_gateway.shell.egress import Egress
from unknot_schemas import bodies
from unknot_schemas.ids import AgentId
from unknot_schemas.subjects import Subjects


def wait_on(kind: str, of: str, **fields: object) -> bodies.WaitCondition:
    return bodies.WaitCondition(kind, of, **fields)  # type: ignore[arg-type]


def test_agents_that_have_left_make_room_for_new_ones() -> None:
    stage = Stage(limits=Limits(agents_max=3))
    for number in range(5):
        token = stage.hello(f"job-{number}", concurrency=1)
        stage.say(f"job-{number}", bodies.Bye(token))
        stage.pass_time(120)
    assert len(stage.kernel.tables.sessions.agents) <= 3
    assert stage.kernel.counters["refused.over_limit"] == 0


def test_finished_strands_of_main_are_no_longer_nodes() -> None:
    stage = Stage()
    stage.hello("elm", session="elm-1", concurrency=1)
    stage.hello("script", session="script-1")
    other = stage.hello("other")
    for number in range(20):
        stage.request("other", "elm", f"b{number}", verb="ask", session=other)
        stage.request(
            "script",
            "elm",
            f"r{number}",
            session="script-1",
            execution="main",
            strand=f"s{number}",
            detached=True,
        )
        stage.reply("elm", f"b{number}", session="elm-1")
        stage.reply("elm", f"r{number}", session="elm-1")
    session = stage.kernel.tables.sessions.find(AgentId("script"), "script-1")
    assert session is not None
    assert len(session.strands) <= 2


def test_a_defer_by_an_execution_leaves_no_node_behind_when_it_is_answered() -> None:
    stage = Stage()
    elm = stage.hello("elm", concurrency=1)
    caller = stage.hello("caller")
    for number in range(20):
        stage.request("caller", "elm", f"r{number}", verb="ask", session=caller)
        stage.say("elm", bodies.Defer(elm, [f"r{number}"], f"hook{number}"))
        stage.reply("elm", f"r{number}", session=elm)
    session = stage.kernel.tables.sessions.find(AgentId("elm"), elm)
    assert session is not None
    assert len(session.strands) <= 2


def test_a_group_whose_members_are_all_refused_leaves_no_node_behind() -> None:
    stage = Stage()
    stage.hello("elm", pools=[])
    caller = stage.hello("caller", concurrency=1)
    for number in range(20):
        group = bodies.Group(f"g{number}", 1, 1)
        stage.request("caller", "elm", f"r{number}", session=caller, execution=f"x{number}", group=group)
    session = stage.kernel.tables.sessions.find(AgentId("caller"), caller)
    assert session is not None
    assert len(session.strands) <= 2


def test_answers_kept_are_let_go_with_their_ids_also_after_a_wait_was_opened_anew() -> None:
    stage = Stage()
    elm = stage.hello("elm", concurrency=1)
    caller = stage.hello("caller")
    stage.say("caller", bodies.WaitOpen("w", caller, [wait_on("human", "h")], timeout_s=1.0))
    stage.pass_time(2.0)
    stage.say("caller", bodies.WaitOpen("w", caller, [wait_on("human", "h")], timeout_s=1.0, generation=1))
    stage.say("caller", bodies.WaitClose("w", caller))
    for number in range(300):
        stage.now += 1.0
        stage.request("caller", "elm", f"r{number}", session=caller)
        stage.reply("elm", f"r{number}", session=elm)
    assert len(stage.kernel.tables.messages._kept) <= 100


def test_a_cancelled_request_for_a_channel_without_members_is_forgotten() -> None:
    stage = Stage()
    caller = stage.hello("caller")
    for number in range(20):
        stage.request(
            "caller", f"@c{number}", f"r{number}", session=caller, wait_for_target_s=50.0, timeout_s=60.0
        )
        stage.say("caller", bodies.RequestCancel(f"r{number}", caller))
    stage.pass_time(100)
    assert stage.kernel.intake._memberless == {}


def test_a_name_that_was_asked_once_is_an_agent_within_the_limit() -> None:
    stage = Stage(limits=Limits(agents_max=10))
    caller = stage.hello("caller")
    for number in range(50):
        stage.request("caller", f"nobody-{number}", f"r{number}", verb="send", session=caller)
    assert len(stage.kernel.tables.sessions.agents) <= 10


def test_an_event_for_an_agent_without_hello_that_waited_for_reconciliation_has_its_receipt() -> None:
    stage = Stage()
    elm = stage.hello("elm", resume=True)
    caller = stage.hello("caller")
    stage.request("caller", "raw", "s1", verb="send", session=caller, reply_to="_INBOX.s1")
    stage.say("elm", bodies.Heartbeat(elm))
    assert stage.delivered("raw") == ["s1"]
    stage.clear()
    stage.pass_time(1.0)
    receipts = [e.body for e in stage.effects if getattr(e, "reply_to", None) == "_INBOX.s1"]
    assert len(receipts) == 1
    assert "s1" not in stage.kernel.tables.messages.open


def test_a_resumed_execution_that_waits_holds_its_slot_in_the_graph() -> None:
    """After a restart: elm's own request is sent again before the one that it handles."""
    stage = Stage()
    held = [bodies.Held("e0")]
    elm = stage.hello("elm", concurrency=1, resume=True, held=held, open=["e1"])
    birch = stage.hello("birch", concurrency=1, resume=True, held=[bodies.Held("b0")], open=["b1"])
    caller = stage.hello("caller", resume=True, open=["e0", "b0"])
    stage.request("elm", "birch", "e1", session=elm, execution="e0")
    stage.request("birch", "elm", "b1", session=birch, execution="b0")
    stage.request("caller", "elm", "e0", session=caller, execution="main", strand="s1")
    stage.request("caller", "birch", "b0", session=caller, execution="main", strand="s2")
    stage.say("elm", bodies.Heartbeat(elm, open=["e1"], held=[bodies.Held("e0")]))
    stage.say("birch", bodies.Heartbeat(birch, open=["b1"], held=[bodies.Held("b0")]))
    stage.say("caller", bodies.Heartbeat(caller, open=["e0", "b0"]))
    for _ in range(20):
        stage.answer_confirms()
        if stage.deadlocks():
            break
        stage.pass_time(0.1)
    assert stage.kinds() == {"e1": "deadlock", "b1": "deadlock"}


def test_a_strand_that_expects_a_request_is_who_must_answer_it() -> None:
    """birch's strand takes elm's question by expect, then asks elm: a knot."""
    stage = Stage()
    birch = stage.hello("birch", concurrency=1)
    elm = stage.hello("elm", concurrency=1)
    caller = stage.hello("caller")
    stage.request("caller", "birch", "b0", session=caller, strand="c1", execution="main")
    stage.request("caller", "elm", "e0", session=caller, strand="c2", execution="main")
    stage.say("birch", bodies.WaitOpen("w1", birch, [wait_on("event", "question")], "b0", "s1"))
    stage.request("elm", "birch", "q", session=elm, execution="e0", type="question")
    assert stage.delivered("birch") == ["b0", "q"]
    stage.say("birch", bodies.WaitClose("w1", birch))
    stage.request("birch", "elm", "r", session=birch, execution="b0", strand="s1")
    for _ in range(20):
        stage.answer_confirms()
        if stage.deadlocks():
            break
        stage.pass_time(0.1)
    assert stage.kinds() == {"q": "deadlock", "r": "deadlock"}


def test_one_expect_takes_one_event() -> None:
    stage = Stage()
    birch = stage.hello("birch", concurrency=1)
    elm = stage.hello("elm")
    caller = stage.hello("caller")
    stage.request("caller", "birch", "b0", session=caller)
    stage.say("birch", bodies.WaitOpen("w1", birch, [wait_on("event", "news")], "b0"))
    stage.request("elm", "birch", "n1", verb="ask", session=elm, type="news")
    stage.request("elm", "birch", "n2", verb="ask", session=elm, type="news")
    assert stage.delivered("birch") == ["b0", "n1"]


def test_an_event_that_is_queued_already_answers_an_expect() -> None:
    stage = Stage()
    birch = stage.hello("birch", concurrency=1)
    elm = stage.hello("elm")
    caller = stage.hello("caller")
    stage.request("caller", "birch", "b0", session=caller)
    stage.request("elm", "birch", "n1", verb="send", session=elm, type="news")
    stage.say("birch", bodies.WaitOpen("w1", birch, [wait_on("event", "news")], "b0"))
    assert stage.delivered("birch") == ["b0", "n1"]


def test_a_claimed_request_goes_to_its_handler_not_to_an_expect() -> None:
    stage = Stage()
    elm = stage.hello("elm", concurrency=2, resume=True, held=[bodies.Held("r")], open=["w"])
    caller = stage.hello("caller", resume=True, open=["r"])
    stage.say("elm", bodies.WaitOpen("w", elm, [wait_on("event", "work")], "other"))
    stage.request("caller", "elm", "r", session=caller)
    stage.say("elm", bodies.Heartbeat(elm, open=["w"], held=[bodies.Held("r")]))
    stage.say("caller", bodies.Heartbeat(caller, open=["r"]))
    assert stage.delivered("elm") == []


def test_a_group_whose_first_member_was_refused_still_sees_its_others() -> None:
    """need 2 of 3: the first is refused, the second can be answered, the third is in a knot."""
    stage = Stage()
    stage.hello("deaf", pools=[])
    birch = stage.hello("birch", concurrency=1)
    elm = stage.hello("elm", concurrency=1)
    flint = stage.hello("flint", concurrency=1)
    caller = stage.hello("caller")
    stage.request("caller", "birch", "b0", session=caller, strand="c1", execution="main")
    stage.request("caller", "elm", "e0", session=caller, strand="c2", execution="main")
    stage.request("elm", "birch", "e1", session=elm, execution="e0")
    group = bodies.Group("g", 3, 2)
    stage.request("birch", "deaf", "m0", session=birch, execution="b0", group=group)
    stage.request("birch", "flint", "m1", session=birch, execution="b0", group=group)
    stage.request("birch", "elm", "m2", session=birch, execution="b0", group=group)
    stage.reply("flint", "m1", session=flint)
    for _ in range(25):
        stage.answer_confirms()
        if stage.deadlocks():
            break
        stage.pass_time(0.1)
    assert {"e1", "m2"} <= set(stage.kinds())
    assert stage.kinds()["m2"] == "deadlock"


def test_what_was_parked_is_not_delivered_to_a_session_that_says_bye() -> None:
    stage = Stage()
    birch = stage.hello("birch")
    elm = stage.hello("elm")
    stage.request("birch", "elm", "r1", session=birch, timeout_s=20.0)
    stage.request("elm", "birch", "r2", session=elm, timeout_s=20.0)
    stage.say("birch", bodies.Bye(birch, 5.0))
    assert "r2" not in stage.delivered("birch")
    stage.answer_confirms()
    stage.pass_time(1.0)
    assert "r2" not in stage.delivered("birch")


def test_one_client_that_resumes_late_does_not_stop_everybody() -> None:
    stage = Stage()
    stage.hello("elm", concurrency=1)
    caller = stage.hello("caller")
    stage.pass_time(20.0)
    stage.hello("late", resume=True)
    stage.request("caller", "elm", "r1", session=caller)
    stage.pass_time(5.0)
    assert stage.delivered("elm") == ["r1"]


def test_nobody_is_told_of_a_deadlock_whose_question_a_free_handler_answers() -> None:
    """FALSE DEADLOCK. birch's expect is over (its event came); the next such event goes to birch's handler."""
    stage = Stage()
    birch = stage.hello("birch", concurrency=2)
    elm = stage.hello("elm", concurrency=1)
    caller = stage.hello("caller")
    stage.request("caller", "birch", "b0", session=caller, strand="c1", execution="main")
    stage.request("caller", "elm", "e0", session=caller, strand="c2", execution="main")
    stage.say("birch", bodies.WaitOpen("w1", birch, [wait_on("event", "question")], "b0"))
    stage.request("caller", "birch", "q1", verb="send", session=caller, type="question")
    # birch's client has its event: the wait is over there (the SDK sends no wait.close: `for` names it)
    stage.request("elm", "birch", "q2", session=elm, execution="e0", type="question")
    assert stage.delivered("birch") == ["b0", "q1", "q2"]
    # b0 goes on and asks elm; q2 meanwhile runs in a slot of birch's that is free
    stage.request("birch", "elm", "r", session=birch, execution="b0")
    stage.answer_confirms(requests={"q2": "running"})
    assert stage.deadlocks() == []


def test_what_a_resumed_session_claims_is_not_called_unheld_before_it_was_sent_again() -> None:
    stage = Stage()
    elm = stage.hello("elm", concurrency=1, resume=True, held=[bodies.Held("r", "deferred")])
    stage.hello("caller", session="caller-1", resume=True, open=["r"])
    stage.clear()
    stage.say("elm", bodies.Heartbeat(elm, held=[bodies.Held("r", "deferred")]))
    pulses = [e.body for e in stage.effects if isinstance(getattr(e, "body", None), bodies.Pulse)]
    assert [pulse.not_held for pulse in pulses] == [[]]


def test_a_lost_delivery_does_not_use_up_the_second_chance_of_a_lost_answer() -> None:
    stage = Stage()
    elm = stage.hello("elm", concurrency=1, heartbeat_s=1.0)
    caller = stage.hello("caller")
    stage.request("caller", "elm", "r", session=caller)
    stage.pass_time(1.5)
    stage.say("elm", bodies.Heartbeat(elm, seen=0))  # the delivery was lost: it is sent again
    assert stage.delivered("elm") == ["r", "r"]
    # it arrives, elm answers, and the answer is lost
    for _ in range(3):
        stage.pass_time(1.0)
        stage.say("elm", bodies.Heartbeat(elm, seen=1))
    assert stage.delivered("elm") == ["r", "r", "r"]
    assert stage.kinds() == {}


def test_a_pool_that_is_changed_still_counts_what_runs() -> None:
    stage = Stage()
    elm = stage.hello("elm", pools=[bodies.Pool(1, ["work"])])
    caller = stage.hello("caller")
    stage.request("caller", "elm", "r1", verb="ask", session=caller)
    stage.hello("elm", session=elm, pools=[bodies.Pool(1, ["work"]), bodies.Pool(1, ["other"])])
    stage.request("caller", "elm", "r2", verb="ask", session=caller)
    assert stage.delivered("elm") == ["r1"]


def test_what_was_parked_for_a_main_pool_that_is_withdrawn_has_no_reader() -> None:
    stage = Stage()
    birch = stage.hello("birch")
    elm = stage.hello("elm")
    stage.request("birch", "elm", "r1", session=birch, timeout_s=20.0)
    stage.request("elm", "birch", "r2", session=elm, timeout_s=20.0)
    stage.hello("birch", session=birch, pools=[])
    stage.pass_time(1.0)
    assert stage.kinds().get("r2") == "refused"


def test_a_send_that_is_cancelled_while_it_waits_for_its_target_has_its_receipt() -> None:
    stage = Stage()
    elm = stage.hello("elm", concurrency=1)
    stage.say("elm", bodies.Bye(elm))
    caller = stage.hello("caller")
    stage.request(
        "caller", "elm", "s1", verb="send", session=caller, wait_for_target_s=20.0, reply_to="_INBOX.s1"
    )
    stage.say("caller", bodies.RequestCancel("s1", caller))
    stage.pass_time(60.0)
    receipts = [e.body for e in stage.effects if getattr(e, "reply_to", None) == "_INBOX.s1"]
    assert len(receipts) == 1


def test_a_second_knot_is_found_while_a_silent_member_is_being_asked_about_another() -> None:
    """birch waits for silent `stone` and is asked; meanwhile a joined strand of birch ties a knot with elm."""
    stage = Stage()
    birch = stage.hello("birch", concurrency=1)
    stone = stage.hello("stone", concurrency=1)
    elm = stage.hello("elm", concurrency=1)
    caller = stage.hello("caller", concurrency=1)
    for number, name in enumerate(("birch", "stone", "elm")):
        stage.request("caller", name, f"{name}0", session=caller, execution="main", strand=f"c{number}")
    stage.request("birch", "stone", "b1", session=birch, execution="birch0", strand="s1")
    stage.request("stone", "birch", "t1", session=stone, execution="stone0")

    def talk() -> None:
        """Everybody but stone answers what it is asked."""
        asked = [e for e in stage.effects if getattr(e, "type", "") == "confirm" and e.agent != "stone"]
        stage.effects = [e for e in stage.effects if getattr(e, "type", "") != "confirm"]
        for control in asked:
            open_ids = [wait.id for wait in control.body.waits]
            stage.say(
                control.agent, bodies.Facts(control.session, control.body.incident, open=open_ids), None
            )

    talk()
    stage.pass_time(0.5)
    stage.request("elm", "birch", "e1", session=elm, execution="elm0")
    stage.request("birch", "elm", "b2", session=birch, execution="birch0", strand="s2")
    for _ in range(25):
        talk()
        stage.pass_time(0.1)
        if stage.deadlocks():
            break
    assert {"e1", "b2"} <= set(stage.kinds())


def test_a_wait_for_an_agent_follows_it_to_its_next_session() -> None:
    """birch waits (reported) for elm, which is not there yet; elm comes, and its only handler waits for birch."""
    stage = Stage()
    birch = stage.hello("birch", concurrency=1, heartbeat_s=0.5, main_runs=False)
    caller = stage.hello("caller")
    stage.request("caller", "birch", "b0", session=caller, strand="c1", execution="main")
    stage.say("birch", bodies.WaitOpen("w", birch, [wait_on("agent", "elm")], "b0", timeout_s=60.0))
    elm = stage.hello("elm", concurrency=1, heartbeat_s=0.5, main_runs=False)
    stage.request("caller", "elm", "e0", session=caller, strand="c2", execution="main")
    stage.request("elm", "birch", "e1", session=elm, execution="e0")
    stage.pass_time(1.5)
    assert stage.kernel.counters["suspicions"] > 0


def test_a_request_sent_again_whose_target_never_came_back_may_have_been_handled() -> None:
    stage = Stage()
    caller = stage.hello("caller", resume=True, open=["r"])
    stage.say("caller", bodies.Heartbeat(caller, open=["r"]))
    stage.request("caller", "elm", "r", session=caller)
    stage.pass_time(20.0)
    assert stage.kinds() == {}  # it may still come back, and say that it holds the request
    stage.say("caller", bodies.Heartbeat(caller, open=["r"]))
    stage.pass_time(20.0)
    outcome = stage.outcomes()["r"]
    assert (outcome.outcome, outcome.handled) == ("responder_lost", "maybe")


def test_a_number_that_a_client_made_up_does_not_silence_others() -> None:
    """hello.seen at the end of its range: the next delivery's number cannot be written."""
    stage = Stage()
    stage.hello("elm", concurrency=1, resume=True, seen=2**64 - 1, session="elm-1")
    stage.say("elm", bodies.Heartbeat("elm-1"))
    caller = stage.hello("caller")
    stage.clear()
    stage.request("caller", "elm", "r", session=caller)
    egress = Egress(Subjects("default"), 1_000_000)
    assert [egress.message(effect) for effect in stage.effects]


def test_one_agents_unfinished_groups_leave_room_for_others() -> None:
    stage = Stage(limits=Limits(groups_max=10))
    elm = stage.hello("elm", concurrency=1)
    birch = stage.hello("birch", concurrency=1)
    caller = stage.hello("caller")
    for number in range(10):
        group = bodies.Group(f"g{number}", 2, 2)
        stage.request("birch", "elm", f"r{number}", session=birch, execution=f"x{number}", group=group)
        stage.reply("elm", f"r{number}", session=elm)
    stage.pass_time(120)
    stage.clear()
    stage.request("caller", "elm", "r", session=caller, group=bodies.Group("mine", 1, 1))
    assert stage.kinds() == {}


def test_a_hello_that_changes_its_channels_is_heard() -> None:
    stage = Stage()
    elm = stage.hello("elm", concurrency=1)
    stage.hello("elm", session=elm, concurrency=1, channels=["news"])
    caller = stage.hello("caller")
    stage.request("caller", "@news", "r", session=caller)
    assert stage.delivered("elm") == ["r"]


def test_a_reentrant_script_that_waits_for_itself_is_in_a_knot() -> None:
    """A main pool is read by main alone: a request whose chain runs there cannot be handled beside it."""
    stage = Stage()
    elm = stage.hello("elm", reentrant=True)
    birch = stage.hello("birch", concurrency=1)
    stage.request("elm", "birch", "r1", session=elm)
    caller = stage.hello("caller")
    stage.request("caller", "elm", "m0", verb="ask", session=caller)  # main's one slot is taken
    stage.request("birch", "elm", "r2", session=birch, execution="r1")
    stage.answer_confirms()
    assert stage.kinds() == {"r1": "deadlock", "r2": "deadlock"}


def test_an_event_that_crossed_the_end_of_its_expect_is_a_handlers() -> None:
    """FALSE DEADLOCK. q goes out `for` w1 while birch gives w1 up; birch's client lets a handler answer q."""
    stage = Stage()
    birch = stage.hello("birch", concurrency=2)
    elm = stage.hello("elm", concurrency=1)
    caller = stage.hello("caller")
    stage.request("caller", "birch", "b0", session=caller, strand="c1", execution="main")
    stage.request("caller", "elm", "e0", session=caller, strand="c2", execution="main")
    stage.say("birch", bodies.WaitOpen("w1", birch, [wait_on("event", "question")], "b0"))
    stage.request("elm", "birch", "q", session=elm, execution="e0", type="question")
    stage.say("birch", bodies.WaitClose("w1", birch))  # sent before q came
    stage.request("birch", "elm", "r", session=birch, execution="b0")
    stage.answer_confirms(requests={"q": "running"}, strands={"b0": bodies.Strands()})
    assert stage.deadlocks() == []


def test_a_request_is_not_kept_back_by_a_probe_that_its_sender_has_left() -> None:
    """birch and silent elm are being asked; birch gives up, and asks flint, who is free."""
    stage = Stage()
    birch = stage.hello("birch")
    elm = stage.hello("elm")
    flint = stage.hello("flint")
    stage.request("birch", "elm", "r1", session=birch, timeout_s=60.0)
    stage.request("elm", "birch", "r2", session=elm, timeout_s=60.0)
    stage.pass_time(0.5)
    stage.say("birch", bodies.RequestCancel("r1", birch))
    stage.request("birch", "flint", "r3", session=birch, timeout_s=5.0)
    stage.pass_time(1.0)
    assert stage.delivered("flint") == ["r3"]
    stage.reply("flint", "r3", session=flint)
    assert stage.kinds()["r3"] == "reply"


def test_an_expect_ends_with_its_event() -> None:
    stage = Stage()
    birch = stage.hello("birch", concurrency=1)
    caller = stage.hello("caller")
    stage.say("birch", bodies.WaitOpen("w1", birch, [wait_on("event", "news")], "main"))
    stage.request("caller", "birch", "n1", verb="send", session=caller, type="news")
    assert "w1" not in stage.kernel.tables.messages.waits


def test_a_half_sent_group_is_over_when_nobody_can_wait_for_it_any_more() -> None:
    stage = Stage()
    elm = stage.hello("elm", concurrency=1)
    birch = stage.hello("birch", concurrency=1)
    stage.request(
        "birch", "elm", "r1", session=birch, execution="x", group=bodies.Group("g", 2, 2), timeout_s=5.0
    )
    stage.reply("elm", "r1", session=elm)
    for _ in range(60):
        stage.pass_time(2.0)
        stage.say("birch", bodies.Heartbeat(birch))
        stage.say("elm", bodies.Heartbeat(elm))
    assert len(stage.kernel.groups) == 0


def test_a_wait_for_an_agent_is_true_while_another_session_of_it_is_free() -> None:
    """FALSE DEADLOCK. birch waits for agent elm; elm's first session waits for birch; a second one comes, free."""
    stage = Stage()
    birch = stage.hello("birch", concurrency=1, heartbeat_s=0.5, main_runs=False)
    elm = stage.hello("elm", concurrency=1, heartbeat_s=0.5, main_runs=False)
    caller = stage.hello("caller")
    stage.request("caller", "birch", "b0", session=caller, strand="c1", execution="main")
    stage.say("birch", bodies.WaitOpen("w", birch, [wait_on("agent", "elm")], "b0", timeout_s=60.0))
    stage.request("caller", "elm", "e0", session=caller, strand="c2", execution="main")
    stage.hello("elm", session="elm-second", concurrency=1, heartbeat_s=0.5, main_runs=False)
    stage.clear()
    stage.request("elm", "birch", "e1", session=elm, execution="e0")
    for _ in range(6):
        told = stage.deadlocks()
        assert told == []
        if not stage.answer_confirms():
            stage.clear()
        stage.say("birch", bodies.Heartbeat(birch, open=["w"], held=[bodies.Held("b0")], seen=9))
        stage.say("elm", bodies.Heartbeat(elm, open=["e1"], held=[bodies.Held("e0")], seen=9))
        stage.pass_time(0.5)
    assert stage.deadlocks() == []


def test_an_event_may_be_expected_by_a_session_that_says_bye() -> None:
    """What a draining session still waits for comes: an expect is no new work."""
    stage = Stage()
    birch = stage.hello("birch", concurrency=1)
    caller = stage.hello("caller")
    stage.request("caller", "birch", "b0", session=caller)
    stage.say("birch", bodies.WaitOpen("w", birch, [wait_on("event", "news")], "b0"))
    stage.say("birch", bodies.Bye(birch, 10.0))
    stage.request("caller", "birch", "n", verb="send", session=caller, type="news")
    assert stage.delivered("birch") == ["b0", "n"]
    stage.reply("birch", "b0", session=birch)
    assert stage.kinds() == {"b0": "reply"}


def test_a_draining_session_still_confirms_its_waits_and_its_knot_is_found() -> None:
    stage = Stage()
    birch = stage.hello("birch", concurrency=1)
    elm = stage.hello("elm", concurrency=1)
    caller = stage.hello("caller")
    stage.request("caller", "birch", "b0", session=caller, strand="c1", execution="main")
    stage.request("caller", "elm", "e0", session=caller, strand="c2", execution="main")
    stage.request("elm", "birch", "e1", session=elm, execution="e0", wait_for_target_s=30.0)
    stage.say("birch", bodies.Bye(birch, 20.0))
    stage.request("birch", "elm", "b1", session=birch, execution="b0")
    stage.clear()
    stage.pass_time(1.0)
    stage.answer_confirms()
    # e1 has no session to go to now: elm waits for one to come, which is outside
    assert stage.deadlocks() == []
    again = stage.hello("birch", concurrency=1)
    assert stage.delivered("birch") == ["e1"]
    stage.reply("birch", "e1", session=again)
    assert stage.kinds()["e1"] == "reply"


def test_a_quorum_with_a_member_deferred_is_no_knot_and_is_one_when_it_is_spent() -> None:
    stage = Stage()
    birch = stage.hello("birch", concurrency=1)
    elm = stage.hello("elm", concurrency=1)
    flint = stage.hello("flint", concurrency=1)
    caller = stage.hello("caller")
    stage.request("caller", "birch", "b0", session=caller, strand="c1", execution="main")
    stage.request("caller", "elm", "e0", session=caller, strand="c2", execution="main")
    stage.request("elm", "birch", "e1", session=elm, execution="e0")
    stage.clear()
    group = bodies.Group("g", 3, 1)
    stage.request("birch", "elm", "m0", session=birch, execution="b0", group=group)
    stage.request("birch", "flint", "m1", session=birch, execution="b0", group=group)
    stage.say("flint", bodies.Defer(flint, ["m1"]))
    stage.request("birch", "elm", "m2", session=birch, execution="b0", group=group)
    assert stage.answer_confirms() == 0
    stage.say("flint", bodies.Bye(flint))
    assert stage.answer_confirms() == 2
    assert {k: v for k, v in stage.kinds().items() if k != "m1"} == dict.fromkeys(
        ("e1", "m0", "m2"), "deadlock"
    )


def test_a_channel_request_hangs_on_every_member_and_is_a_knot_when_the_free_one_is_lost() -> None:
    stage = Stage()
    birch = stage.hello("birch", concurrency=1)
    elm = stage.hello("elm", concurrency=1, channels=["c"])
    flint = stage.hello("flint", concurrency=1, channels=["c"])
    caller = stage.hello("caller")
    stage.request("caller", "birch", "b0", session=caller, strand="c1", execution="main")
    stage.request("caller", "elm", "e0", session=caller, strand="c2", execution="main")
    stage.request("elm", "birch", "e1", session=elm, execution="e0")
    stage.clear()
    stage.request("birch", "@c", "b1", session=birch, execution="b0")
    assert stage.delivered("flint") == ["b1"]
    assert stage.answer_confirms() == 0
    stage.say("flint", bodies.Defer(flint, ["b1"]))
    assert stage.answer_confirms() == 0
    stage.say("flint", bodies.Bye(flint))
    assert stage.answer_confirms() == 2
    assert stage.kinds() == {"e1": "deadlock", "b1": "deadlock"}


def test_one_way_events_for_an_expect_are_not_kept_and_repeated_for_ever() -> None:
    """A raw client that answers and heartbeats, but never says which number it has seen."""
    stage = Stage()
    birch = stage.hello("birch", concurrency=1, heartbeat_s=1.0)
    caller = stage.hello("caller", heartbeat_s=60.0)
    for number in range(30):
        stage.say("birch", bodies.WaitOpen(f"w{number}", birch, [wait_on("event", "news")], "main"))
        stage.request("caller", "birch", f"n{number}", verb="send", session=caller, type="news")
        stage.pass_time(1.5)
        stage.say("birch", bodies.Heartbeat(birch))
    session = stage.kernel.tables.sessions.find(AgentId("birch"), birch)
    assert session is not None
    assert len(session.unseen) <= 5


def test_a_one_way_event_for_an_expect_that_was_lost_on_the_way_is_delivered_again() -> None:
    stage = Stage()
    birch = stage.hello("birch", concurrency=1, heartbeat_s=1.0)
    caller = stage.hello("caller")
    stage.say("birch", bodies.WaitOpen("w", birch, [wait_on("event", "news")], "main"))
    stage.request("caller", "birch", "n", verb="send", session=caller, type="news")
    stage.pass_time(1.5)
    stage.say("birch", bodies.Heartbeat(birch, open=["w"], seen=0))  # nothing has arrived
    assert stage.delivered("birch") == ["n", "n"]
