"""Requests that are one wait: need of n answers. Members not yet arrived count as true."""

from unknot_gateway.core.records import Group, Message, Session
from unknot_gateway.core.tables import Tables
from unknot_schemas import bodies, errors
from unknot_schemas.ids import MAIN, OWN_TASK, ExecutionId, StrandId
from unknot_schemas.limits import GROUP_MEMBERS_MAX


class Groups:
    """Owner of all groups, open and lately closed."""

    def __init__(self, tables: Tables) -> None:
        self._t = tables
        self._groups: dict[tuple[int, str], Group] = {}

    def __len__(self) -> int:
        return len(self._groups)

    def join(self, message: Message, asked: bodies.Group, now: float) -> bodies.Error | None:
        """Enter *message* as the next member; an Error if it does not fit or its group is over."""
        if not (1 <= asked.need <= asked.n <= GROUP_MEMBERS_MAX):
            return bodies.Error(
                errors.GROUP_CONFLICT, f"group {asked.id!r} needs 1 <= need <= n <= {GROUP_MEMBERS_MAX}"
            )
        key = (message.source.generation, asked.id)
        envelope = message.envelope
        place = (ExecutionId(envelope.execution or MAIN), StrandId(envelope.strand or OWN_TASK))
        group = self._groups.get(key)
        if group is None:
            if len(self._groups) >= self._t.limits.groups_max:
                return bodies.Error(errors.OVER_LIMIT, "too many groups are open", {"retry_after_s": 1.0})
            group = Group(asked.id, message.source, place, asked.n, asked.need, now)
            self._groups[key] = message.source.groups[asked.id] = group
        elif (group.n, group.need, group.place) != (asked.n, asked.need, place) or group.arrived >= group.n:
            return bodies.Error(
                errors.GROUP_CONFLICT,
                f"all {group.n} members of group {asked.id!r} share session, execution, strand, n and need",
            )
        message.group, message.index = group, group.arrived
        group.arrived += 1
        group.open[message.id] = message
        return None

    def enter(self, message: Message) -> None:
        """Let the group's wait hang on *message*, too."""
        group = message.group
        assert group is not None
        if group.wait is None:
            self._t.waiting.open_group(group, message)
        message.wait = group.wait
        if group.wait is not None:
            group.wait.messages.append(message)
            self._t.waiting.update(message)

    def ended(self, message: Message, now: float, *, answered: bool) -> list[Message]:
        """A member has ended; return the members that nobody waits for any more."""
        group = message.group
        assert group is not None
        group.open.pop(message.id, None)
        group.ended[message.index] = answered
        if answered:
            group.answered += 1
        else:
            group.spent += 1
        if group.is_closed or (group.answered < group.need and group.n - group.spent >= group.need):
            self._forget_if_over(group, now)
            return []
        group.is_closed = True
        if group.wait is not None:
            self._t.waiting.close(group.wait)
        self._forget_if_over(group, now)
        return list(group.open.values())

    def end_session(self, session: Session) -> None:
        """The groups of *session* are over."""
        for group_id in list(session.groups):
            self._drop((session.generation, group_id))

    def forget(self, key: tuple[int, str]) -> None:
        """A group whose members never all came is remembered no longer, unless one of them is open."""
        group = self._groups.get(key)
        if group is not None and not group.open:
            self._drop(key)

    def _drop(self, key: tuple[int, str]) -> None:
        group = self._groups.pop(key)
        group.session.groups.pop(group.id, None)
        self._t.deadlines.drop("group", key)
        if group.wait is not None:
            self._t.waiting.close(group.wait)

    def _forget_if_over(self, group: Group, now: float) -> None:
        key = (group.session.generation, group.id)
        if group.arrived >= group.n and not group.open:
            if key in self._groups:
                self._drop(key)
        elif not group.open:
            self._t.deadlines.set("group", key, now + self._t.limits.remembered_s)
