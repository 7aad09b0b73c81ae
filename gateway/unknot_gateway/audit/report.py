"""The audit of one file, and of all below a path."""

import ast
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from unknot_gateway.audit import rules, source
from unknot_gateway.audit.infer import Inference
from unknot_gateway.audit.limits import SHOWN_CHARS_MAX
from unknot_gateway.audit.module import Module
from unknot_gateway.audit.polling import polling
from unknot_gateway.audit.reach import in_the_way
from unknot_gateway.audit.rules import Finding
from unknot_gateway.audit.suppressions import Suppression, suppressions
from unknot_gateway.audit.waits import Place, Waits, is_covered


def audit(paths: Iterable[Path]) -> Iterator[Finding]:
    """The findings in *paths*: files, and folders with all that is below them. Nothing is imported or run."""
    seen: set[Path] = set()
    for file in (file for path in paths for file in source.files(path)):
        if file not in seen:
            seen.add(file)
            yield from audit_file(file)


def audit_file(path: Path) -> list[Finding]:
    """The findings in one file, in order; one that cannot be read or parsed is a finding."""
    shown = os.fsencode(path).decode(errors="replace")
    try:
        return audit_text(source.content(path), shown)
    except source.Unreadable as error:
        return [Finding(shown, error.line, 1, rules.UNREADABLE, str(error))]


def audit_text(text: bytes, path: str) -> list[Finding]:
    """The findings in a file's bytes; raises Unreadable."""
    module = Module(source.parsed(text))
    lines = text.splitlines()
    comments = suppressions(text)
    found = [
        _finding(path, node, rule, lines) for node, rule in _places(module) if not _suppressed(node, comments)
    ]
    for comment in comments:
        if not comment.reason or not comment.is_used:
            rule = rules.UNUSED if comment.reason else rules.NO_REASON
            found.append(Finding(path, comment.line, comment.column, rule, "# unknot: ok"))
    return sorted(found)


def _places(module: Module) -> list[Place]:
    inference = Inference(module)
    waits = Waits(module, inference, in_the_way(module, inference))
    places = [*waits.places(), *polling(module)]
    places += waits.locks({node for node, _ in places})
    inside = {node for node, rule in places if rule == rules.POLLING}
    return [
        (node, rule)
        for node, rule in places
        if not (rule == rules.SLEEP and node in inside) and not is_covered(module, node)
    ]


def _suppressed(node: ast.AST, comments: list[Suppression]) -> bool:
    """Whether a comment with a reason is about one of the lines of *node*; it is used then."""
    first, last = getattr(node, "lineno", 1), getattr(node, "end_lineno", 1)
    about = [each for each in comments if each.reason and first <= each.covers <= last]
    for each in about:
        each.is_used = True
    return bool(about)


def _finding(path: str, node: ast.AST, rule: str, lines: list[bytes]) -> Finding:
    line, start = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
    whole = lines[line - 1] if line <= len(lines) else b""
    end = (
        getattr(node, "end_col_offset", len(whole))
        if getattr(node, "end_lineno", line) == line
        else len(whole)
    )
    shown = whole[start:end].decode(errors="replace").strip()
    if len(shown) > SHOWN_CHARS_MAX:
        shown = shown[: SHOWN_CHARS_MAX - 1] + "…"
    return Finding(path, line, len(whole[:start].decode(errors="replace")) + 1, rule, shown)
