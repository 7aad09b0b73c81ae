"""No file ends an audit: what cannot be read or parsed is a finding with a name, everything else is looked at."""

import random
import sysconfig
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.audit.snippets import BAD, code
from tests.oracle.examples import share
from unknot_gateway.audit import Finding, Unreadable, audit, audit_file, audit_text, limits

STDLIB = Path(sysconfig.get_paths()["stdlib"])
SAMPLE = 25


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"def f(:\n", "is no Python"),
        (b"a = 1\0\n", "is no Python"),
        (b"\xff\xfe\n", "is no Python"),
        (b"# coding: no-such-thing\n", "is no Python"),
        (b"# coding: utf-16\n", "is no Python"),
        (b"a = " + b"(" * 5_000, "is no Python"),
        (b"a = " + b"-" * 100_000 + b"1\n", ""),
        (b"a = " + b"1 + " * 100_000 + b"1\n", ""),
        (b"x" * (limits.FILE_BYTES_MAX + 1), "is larger than"),
    ],
    ids=[
        "syntax",
        "null",
        "not-utf-8",
        "unknown-encoding",
        "wrong-encoding",
        "parentheses",
        "signs",
        "terms",
        "large",
    ],
)
def test_a_file_that_cannot_be_parsed_is_a_finding(tmp_path: Path, text: bytes, why: str) -> None:
    path = tmp_path / "mine.py"
    path.write_bytes(text)
    found = audit_file(path)
    assert [each.rule for each in found] == ["UNK099"]
    assert why in found[0].text


def test_a_syntax_error_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("a = 1\n\ndef f(:\n")
    assert audit_file(path)[0].line == 3


def test_a_file_that_cannot_be_opened_is_a_finding(tmp_path: Path) -> None:
    (tmp_path / "gone.py").symlink_to(tmp_path / "nowhere")
    assert [(each.rule, each.text) for each in audit([tmp_path])] == [
        ("UNK099", "cannot be read: No such file or directory")
    ]


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\xef\xbb\xbfinput()\n",
        b"# coding: latin-1\n'\xe9'; input()\n",
        b"'\\d'; input()\r\n",
        b"\x0cinput()\n",
    ],
    ids=["empty", "mark", "latin-1", "bad-escape", "form-feed"],
)
def test_other_encodings_and_line_ends_are_read(text: bytes) -> None:
    assert [each.rule for each in audit_text(text, "mine.py")] == ["UNK011"] * (b"input" in text)


def test_a_deep_but_legal_file_is_looked_at() -> None:
    deep = "".join(f"{' ' * depth}if a:\n" for depth in range(90)) + " " * 90 + "input()\n"
    assert [each.rule for each in audit_text(deep.encode(), "mine.py")] == ["UNK011"]


def test_names_that_are_bound_to_each_other_end() -> None:
    text = "a = b\nb = a\nclass A(B): pass\nclass B(A): pass\nx = A()\nasync def f():\n    await a, await x.y.get()\n"
    assert audit_text(text.encode(), "mine.py") == []


def test_names_that_may_be_many_things_each_are_told_in_time() -> None:
    names = [f"a{number}" for number in range(30)]
    lines = [f"{name} = {other}" for name in names for other in names]
    text = "\n".join([*lines, "async def f():", *(f"    await {name}.get()" for name in names)])
    assert audit_text(text.encode(), "mine.py") == []


def test_all_below_a_folder_is_looked_at_once_but_no_environment_and_no_cache(tmp_path: Path) -> None:
    for name in ("a.py", "b/c.py", "venv/d.py", ".git/e.py", "__pycache__/f.py", "b/notes.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("input()\n")
    (tmp_path / "venv" / "pyvenv.cfg").write_text("")
    found = list(audit([tmp_path, tmp_path / "a.py"]))
    assert [Path(each.path).relative_to(tmp_path).as_posix() for each in found] == ["a.py", "b/c.py"]


def test_the_standard_library_can_be_audited() -> None:
    """A sample of it, another one in each run."""
    files = [path for path in STDLIB.rglob("*.py") if "site-packages" not in path.parts]
    seed = random.randrange(10**9)
    for path in random.Random(seed).sample(sorted(files), SAMPLE):
        try:
            assert all(isinstance(each, Finding) for each in audit_file(path))
        except Exception as error:
            raise AssertionError(f"{path}, seed {seed}") from error


SNIPPETS = [code(each) for snippets in BAD.values() for each in snippets]


@share(0.1)
@given(st.sampled_from(SNIPPETS), st.data())
def test_code_that_is_cut_and_joined_anyhow_raises_nothing_else(text: str, data: st.DataObject) -> None:
    lines = text.splitlines() + data.draw(st.sampled_from(SNIPPETS)).splitlines()
    kept = data.draw(st.lists(st.sampled_from(lines), max_size=30))
    mixed = "\n".join(kept)
    at = data.draw(st.integers(0, len(mixed)))
    try:
        audit_text((mixed[:at] + data.draw(st.text(max_size=3)) + mixed[at:]).encode(), "mine.py")
    except (Unreadable, UnicodeEncodeError):
        pass
