"""What the documents say is true: their code is run, their commands are typed, their output is compared."""

import re
from pathlib import Path

import pytest

from tests.house.documents import BLOCK, Reader, blocks, says
from tests.house.environments import Environment
from tests.house.tree import ROOT, files
from unknot import Login
from unknot_gateway.shell.settings import Settings, load

pytestmark = [pytest.mark.once, pytest.mark.timeout(300)]

OPERATING = ROOT / "docs" / "operating.md"
COMMAND = re.compile(r"^(?:\$ |\| `)unknot ([a-z]+(?: list| check)?)\b", re.MULTILINE)
LINK = re.compile(r"\[[^]]*\]\((?!https?://)([^)#]+)")


@pytest.mark.parametrize("document", ["README.md", "docs/quickstart.md", "docs/wire.md"])
def test_who_does_what_it_says_sees_what_it_says(
    document: str, of_a_gateway: Environment, tmp_path: Path
) -> None:
    with Reader(of_a_gateway, tmp_path) as reader:
        for block in blocks(ROOT / document):
            reader.act_on(block)


def test_with_a_second_slot_the_knot_of_the_readme_is_none(of_a_gateway: Environment, tmp_path: Path) -> None:
    with Reader(of_a_gateway, tmp_path) as reader:
        for block in blocks(ROOT / "README.md"):
            if "team" in block.mark:
                assert '"reviewer"' in block.text
                wider = block.text.replace('Agent("reviewer")', 'Agent("reviewer", concurrency=2)')
                reader.act_on(block._replace(text=wider))
            elif "unknot serve" in block.text or "unknot run team" in block.text:
                reader.act_on(block)
        assert (
            reader.run("unknot request reviewer review '\"a draft\"'").strip()
            == '"a draft, in a friendly tone"'
        )


def test_every_link_between_documents_leads_somewhere() -> None:
    broken = [
        f"{document.relative_to(ROOT)}: {target}"
        for document in files("*.md")
        for target in LINK.findall(document.read_text())
        if not (document.parent / target).exists()
    ]
    assert broken == []


def test_every_make_target_of_the_documents_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {name for path in files("*.md") for name in re.findall(r"`make ([a-z]+)`", path.read_text())}
    assert named <= targets


def test_every_verb_of_the_documents_exists(of_a_gateway: Environment, tmp_path: Path) -> None:
    verbs = {verb for path in files("*.md") for verb in COMMAND.findall(path.read_text())}
    assert {"serve", "run", "request", "waits list", "graph check"} <= verbs
    for verb in verbs:
        done = of_a_gateway.run("unknot", *verb.split(), "--help", cwd=tmp_path)
        assert done.returncode == 0, f"unknot {verb} --help\n{done.stderr}"


def test_every_setting_of_the_documents_exists() -> None:
    named = set(re.findall(r"`UNKNOT_([A-Z_]+)`", OPERATING.read_text())) - {"URL"}
    assert {name.lower() for name in named} <= {*Settings.__struct_fields__, *Login.__struct_fields__}


def test_the_settings_file_of_the_documents_can_be_loaded(tmp_path: Path) -> None:
    [example] = [match[3] for match in BLOCK.finditer(OPERATING.read_text()) if match[1] == "toml"]
    (tmp_path / "unknot.toml").write_text(example)
    loaded = load({}, {}, str(tmp_path / "unknot.toml"))
    assert (loaded.kernel_config("default").policy, loaded.kernel_config("trial").policy) == (
        "refuse",
        "shadow",
    )


def test_other_output_than_the_document_says_is_seen() -> None:
    assert says('"deadlock: a -> b…"', '"deadlock: a -> b -> a"\n')
    assert not says('"hello"', '"hello"\nand more')
    assert not says('"hello"', "")
