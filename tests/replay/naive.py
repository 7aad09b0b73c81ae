"""Who is stuck at an instant of a recording, told from nothing each time: no engine, no timers, no increments.

Times are whole seconds; lines are dicts as `recordings` in the tests draws them.
"""

from typing import Any

Execution = tuple[str, int, str]
"""Agent, life, run."""
VALID_S = 30


class Truth:
    """The state at the end of instant *now*, from the lines up to then in the order of the file."""

    def __init__(self, lines: list[dict[str, Any]], now: int) -> None:
        self.lives: dict[str, int] = {}
        self.lost: set[tuple[str, int]] = set()
        self.runs: dict[tuple[str, int], set[str]] = {}
        self.waits: dict[Execution, tuple[str, str]] = {}
        self.locks: dict[str, tuple[str, int]] = {}
        self.makers: dict[str, set[tuple[str, int]]] = {}
        until: dict[str, int | None] = {}
        fresh: dict[Execution, int] = {}
        heard = [line for line in lines if line["at"] <= now]
        heard.sort(key=lambda line: (line["at"], not {"agent", "gone"} & line.keys()))
        for at in sorted({line["at"] for line in heard} | {now}):
            for lock in [name for name, end in until.items() if end is not None and end < at]:
                del until[lock], self.locks[lock]
            for line in (line for line in heard if line["at"] == at):
                self._take(line, until, fresh)
        for lock in [name for name, end in until.items() if end is not None and end <= now]:
            del until[lock], self.locks[lock]
        self.waits = {each: wait for each, wait in self.waits.items() if fresh[each] > now}

    def _take(self, line: dict[str, Any], until: dict[str, int | None], fresh: dict[Execution, int]) -> None:
        at = line["at"]
        if "gone" in line:
            agent = line["gone"]["agent"]
            self.lost.add((agent, self.lives.setdefault(agent, 0)))
        elif "produces" in line:
            self.makers.setdefault(line["produces"]["artifact"], set()).add(self._life(line["produces"]))
        elif "holds" in line:
            end = line["holds"].get("until")
            if end is None or end > at:
                self.locks[line["holds"]["lock"]] = self._life(line["holds"])
                until[line["holds"]["lock"]] = end
        elif "released" in line:
            lock, agent = line["released"]["lock"], line["released"]["agent"]
            if lock in self.locks and self.locks[lock][0] == agent:
                del self.locks[lock], until[lock]
        else:
            agent, on = line["agent"], line["blocked_on"]
            if (agent, self.lives.setdefault(agent, 0)) in self.lost:
                self.lives[agent] += 1
            life = agent, self.lives[agent]
            self.runs.setdefault(life, set()).add(line["run_id"])
            self.waits.pop((*life, line["run_id"]), None)
            if on is not None:
                self.waits[*life, line["run_id"]] = on["kind"], on["id"]
                fresh[*life, line["run_id"]] = min(at + VALID_S, on.get("wait_deadline", at + VALID_S))

    def _life(self, fact: dict[str, str]) -> tuple[str, int]:
        return fact["agent"], self.lives.setdefault(fact["agent"], 0)

    def needs(self, of: Execution) -> set[Execution] | None:
        """Any of whom must go on; None: nobody need."""
        kind, name = self.waits[of]
        if kind == "agent":
            lives = {(name, self.lives[name])} if name in self.lives else set()
            if lives and of[2] in self.runs.get((name, self.lives[name]), set()):
                return {(name, self.lives[name], of[2])}
        elif kind == "lock":
            lives = {self.locks[name]} if name in self.locks else set()
        elif kind == "artifact":
            lives = self.makers.get(name, set())
        else:
            lives = set()
        return {(*life, run) for life in lives for run in self.runs.get(life) or {""}} or None

    def stuck(self, among: set[Execution] | None = None, *, lost_go_on: bool = True) -> set[Execution]:
        """Who waits and cannot go on, when all but *among* can; the least fixpoint, naively."""
        blocked = {each for each in self.waits if each[:2] not in self.lost and each in (among or self.waits)}
        barred = (
            set()
            if lost_go_on
            else {(*life, run) for life in self.lost for run in self.runs.get(life) or {""}}
        )
        while able := {each for each in blocked if self._goes_on(each, blocked | barred)}:
            blocked -= able
        return blocked

    def _goes_on(self, each: Execution, blocked: set[Execution]) -> bool:
        needed = self.needs(each)
        return needed is None or bool(needed - blocked)
