"""A whole recording: its lines in order of time, and between them whatever runs out."""

from collections.abc import Iterable, Iterator
from itertools import groupby

from unknot_gateway.replay.fold import Fold
from unknot_gateway.replay.judge import Judge
from unknot_gateway.replay.limits import HEARTBEAT_S, HEARTBEATS_VALID, LINES_MAX, MALFORMED_MAX, SHOWN_MAX
from unknot_gateway.replay.lines import Holds, Produces, Released, Said, read
from unknot_gateway.replay.malformed import Malformed
from unknot_gateway.replay.times import SECOND, Clock
from unknot_gateway.replay.verdicts import End, Finding, MalformedLine


class Replay:
    """One recording. *heartbeat_s*: between two descriptors of an agent that stays blocked."""

    def __init__(self, heartbeat_s: float = HEARTBEAT_S, check_steps: int | None = None) -> None:
        self.clock = Clock()
        self.malformed = 0
        self._heartbeat = round(heartbeat_s * SECOND)
        self._check_steps = check_steps
        self._said: list[Said] = []
        self._out_of_order = 0

    def read(self, lines: Iterable[bytes]) -> Iterator[MalformedLine]:
        """Take the lines in; those that cannot be used. Empty ones count, and are skipped. At most LINES_MAX."""
        latest_at: int | None = None
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                if number > LINES_MAX:
                    raise Malformed(f"more than {LINES_MAX} lines: this one and all behind it are left out")
                said = read(line, self.clock)
            except Malformed as error:
                self.malformed += 1
                if self.malformed <= MALFORMED_MAX or number > LINES_MAX:
                    yield MalformedLine(number, str(error))
                if number > LINES_MAX:
                    return
                continue
            self._said.append(said)
            self._out_of_order += latest_at is not None and said.at < latest_at
            latest_at = said.at if latest_at is None else max(latest_at, said.at)

    def findings(self) -> Iterator[Finding]:
        """What would have been found, in order of time.

        Of one instant first what agents say of themselves, then who owns what; each in the order of the file.
        """
        fold = Fold(HEARTBEATS_VALID * self._heartbeat, self._check_steps)
        judge = Judge(fold, self._heartbeat)
        at: int | None = None
        in_order = sorted(
            self._said, key=lambda said: (said.at, isinstance(said, Produces | Holds | Released))
        )
        for at, lines in groupby(in_order, key=lambda said: said.at):
            while (due_at := fold.next_due_at()) is not None and due_at < at:
                fold.run_out(due_at)
                yield from judge.look(due_at)
            for said in lines:
                fold.take(said)
            fold.run_out(at)
            yield from judge.look(at)
        yield self._end(at, fold, judge)

    def _end(self, at: int | None, fold: Fold, judge: Judge) -> End:
        return End(
            at,
            len(self._said),
            self.malformed,
            self._out_of_order,
            fold.ignored,
            judge.incidents,
            judge.standing,
            len(judge.orphans),
            judge.outside_of()[:SHOWN_MAX],
            judge.unresolved()[:SHOWN_MAX],
        )
