"""The users file and the command that changes it."""

import json
import stat
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import nkeys
import pytest
from click.testing import CliRunner, Result

from unknot_gateway.cli import main
from unknot_gateway.identity import configuration, passwords, permissions, users
from unknot_gateway.identity.users import BadUsers, User, Users
from unknot_gateway.shell import api
from unknot_gateway.shell.embedded import find_server

NKEY = nkeys.from_seed(nkeys.encode_seed(bytes(32), nkeys.PREFIX_BYTE_USER)).public_key.decode()


def run(file: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["users", *arguments, "--users", str(file)])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "users.json"


def test_a_password_is_printed_once_and_alone_and_kept_as_a_hash(file: Path) -> None:
    done = run(file, "add", "birch")
    password = done.stdout.strip()
    assert done.exit_code == 0
    assert len(password) == 32
    assert password not in file.read_text()
    assert passwords.is_sealed(users.load(file).named("birch").secret)


def test_nobody_else_may_read_the_file(file: Path) -> None:
    run(file, "add", "birch")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    run(file, "add", "elm")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_where_nothing_can_hash_the_password_is_kept_plain_and_said_to_be(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ctypes.util.find_library", lambda name: None)
    password = run(file, "add", "birch").stdout.strip()
    assert users.load(file).named("birch").secret == password
    assert "plain password" in run(file, "list").stdout


def test_rotate_gives_another_password_and_changes_nothing_else(file: Path) -> None:
    first = run(file, "add", "birch", "--channels", "reviews", "--may-request", "elm,@reviews").stdout
    before = users.load(file).named("birch")
    second = run(file, "rotate", "birch").stdout
    after = users.load(file).named("birch")
    assert first != second
    assert before.secret != after.secret
    assert (after.channels, after.may_request) == (["reviews"], ["elm", "@reviews"])


def test_change_leaves_the_secret_alone(file: Path) -> None:
    run(file, "add", "birch", "--channels", "reviews", "--may-request", "elm")
    before = users.load(file).named("birch")
    assert run(file, "change", "birch", "--may-request", "*").exit_code == 0
    after = users.load(file).named("birch")
    assert (after.secret, after.channels, after.may_request) == (before.secret, ["reviews"], None)


def test_who_is_revoked_is_gone(file: Path) -> None:
    run(file, "add", "birch")
    run(file, "add", "elm")
    assert run(file, "revoke", "birch").exit_code == 0
    assert [user.name for user in users.load(file).users] == ["elm"]


def test_changes_made_at_once_are_all_there(file: Path) -> None:
    names = [f"a{number}" for number in range(16)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: add(file, name), names))
    assert sorted(user.name for user in users.load(file).users) == sorted(names)


def add(file: Path, name: str) -> None:
    with users.changing(file) as change:
        change.write(change.users.with_user(User(name=name, secret="x")))


@pytest.mark.parametrize(
    "arguments",
    [
        ["add", "birch"],
        ["add", "Birch"],
        ["add", "birch", "--network", "other"],
        ["add", "gateway"],
        ["add", "gateway", "--role", "monitor"],
        ["add", "a.b"],
        ["add", "a b"],
        ["add", "agent:elm"],
        ["add", "@gateway", "--role", "gateway"],
        ["add", "elm", "--network", "a b"],
        ["add", "elm", "--channels", "a.b"],
        ["add", "elm", "--may-request", "*,birch"],
        ["add", "elm", "--may-request", "a>"],
        ["add", "elm", "--nkey", "SUABC"],
        ["add", "elm", "--nkey", "U" + "A" * 55],
        ["add", "eye", "--role", "monitor", "--channels", "reviews"],
        ["revoke", "elm"],
        ["rotate", "elm"],
        ["change", "elm", "--channels", "x"],
        ["change", "birch"],
        ["sing"],
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(file: Path, arguments: list[str]) -> None:
    run(file, "add", "birch")
    before = file.read_bytes()
    done = run(file, *arguments)
    assert done.exit_code == 2
    assert done.stderr
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"format": 2}',
        '{"users": [{"name": "birch"}]}',
        '{"users": [{"name": "birch", "secret": "x", "nkey": "U"}]}',
        '{"users": [{"name": "birch", "secret": "x", "colour": 1}]}',
        '{"users": [{"name": "birch", "secret": "x", "role": "king"}]}',
        '{"users": [{"name": "birch", "secret": "x"}, {"name": "BIRCH", "secret": "x"}]}',
        '{"users": [{"name": "birch\\n", "secret": "x"}]}',
    ],
)
def test_a_file_that_cannot_be_is_refused_whole(file: Path, text: str) -> None:
    file.write_text(text)
    with pytest.raises(BadUsers, match=r"users\.json"):
        users.load(file)
    assert run(file, "list").exit_code == 2


def test_the_list_has_no_secrets(file: Path) -> None:
    run(file, "add", "birch")
    run(file, "add", "elm", "--nkey", NKEY)
    secret = users.load(file).named("birch").secret
    for option in ([], ["--json"]):
        shown = run(file, "list", *option).stdout
        assert secret not in shown
    assert [row["known_by"] for row in json.loads(shown)] == ["bcrypt", "nkey"]


def test_the_export_is_taken_by_a_server(file: Path, tmp_path: Path) -> None:
    run(file, "add", "birch", "--channels", "reviews", "--may-request", "elm")
    run(file, "add", "elm", "--nkey", NKEY)
    for role in ("gateway", "monitor", "operator"):
        run(file, "add", f"a-{role}", "--role", role)
    block = tmp_path / "users.conf"
    block.write_text(run(file, "export").stdout)
    server = tmp_path / "server.conf"
    server.write_text(f'include "{block.name}"\n')
    done = subprocess.run([find_server(), "-t", "-c", server], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    named = [user.get("user") for user in json.loads(run(file, "export", "--json").stdout)["users"]]
    assert named == ["a-gateway", "a-monitor", "a-operator", "birch", None]


def test_an_export_without_a_gateway_says_so(file: Path) -> None:
    run(file, "add", "birch")
    assert "--role gateway" in run(file, "export").stderr


def test_subjects_have_the_prefix_and_the_network() -> None:
    may = permissions.permissions(User(name="elm", network="trial", secret="x"), "my.knots")
    assert may.publish == ["my.knots.trial.in.elm.>"]
    assert all(subject.startswith(("my.knots.trial.", "_INBOX.elm.")) for subject in may.subscribe)


def test_a_monitor_may_ask_what_the_api_answers_and_changes_nothing() -> None:
    assert set(permissions.READS) == set(api._READERS)


@pytest.mark.parametrize("name", ['a"b', "a\nb", "$HOME", "a}b"])
def test_no_text_of_a_user_ends_its_place_in_the_configuration(name: str) -> None:
    user: Any = User(name=name, secret=name)
    block = configuration.authorization([user], "unknot").removeprefix("authorization: ")
    assert json.loads(block)["users"][0]["password"] == name


def test_users_are_named_by_their_digest() -> None:
    one, other = Users(users=[User(name="a", secret="x")]), Users(users=[User(name="a", secret="y")])
    assert users.digest(one) == users.digest(Users(users=[User(name="a", secret="x")]))
    assert users.digest(one) != users.digest(other)
