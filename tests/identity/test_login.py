"""Every way to log in that NATS knows: passwords, nkeys, creds files, TLS, contexts of its command."""

import asyncio
import base64
import json
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nkeys
import pytest
from click.testing import CliRunner

from tests.cli.rig import unknot as command
from tests.identity.rig import House
from tests.support import gateway as support
from unknot import BadLogin, Login, Refused, connect
from unknot_gateway.cli import main
from unknot_gateway.shell.embedded import EmbeddedServer, find_server


def test_what_the_program_says_goes_before_the_environment_before_the_context(tmp_path: Path) -> None:
    environment = context(tmp_path, "team", user="c", password="cp", ca="c.pem", url="nats://there") | {
        "UNKNOT_USER": "e",
        "UNKNOT_CONTEXT": "team",
        "UNKNOT_TLS_CERT": "e.crt",
    }
    found = Login(user="p").resolved(environment)
    assert (found.user, found.password, found.tls_ca, found.tls_cert) == ("p", "cp", "c.pem", "e.crt")
    assert found.url == "nats://there"
    assert Login().resolved(environment).user == "e"
    assert Login(context="team").resolved(environment | {"UNKNOT_CONTEXT": "other"}).user == "e"


def test_there_is_never_a_second_secret_beside_the_own_one(tmp_path: Path) -> None:
    environment = context(tmp_path, "team", user="c", password="cp") | {"UNKNOT_CONTEXT": "team"}
    assert Login(creds="x.creds").resolved(environment).password is None
    assert Login().resolved(environment | {"UNKNOT_NKEY": "seed"}).password is None


def test_a_password_without_a_user_is_the_agents(tmp_path: Path) -> None:
    assert Login(password="x").options("elm") == {"user": "elm", "password": "x"}
    (tmp_path / "elm.secret").write_text("from a file\n")
    found = Login(password_file=str(tmp_path / "{agent}.secret")).options("elm")
    assert found == {"user": "elm", "password": "from a file"}
    assert Login().options("elm") == {}


def test_a_login_shows_no_secret() -> None:
    assert "hush" not in repr(Login(user="elm", password="hush", nkey="hush", token="hush"))


@pytest.mark.parametrize(
    "login",
    [
        Login(context="nowhere"),
        Login(context="../etc"),
        Login(context="broken"),
        Login(context="by-nsc"),
        Login(creds="no/such/file"),
        Login(nkey="no/such/file"),
        Login(password_file="no/such/{agent}"),
        Login(tls_ca="no/such/file"),
        Login(tls_cert="no/such/file"),
    ],
    ids=["unknown", "path", "broken", "nsc", "creds", "nkey", "password", "ca", "cert"],
)
def test_what_cannot_be_used_is_refused_with_its_reason(login: Login, tmp_path: Path) -> None:
    environment = context(tmp_path, "by-nsc", nsc="nsc://o/a/u")
    (tmp_path / "nats" / "context" / "broken.json").write_text("{")
    with pytest.raises(BadLogin):
        login.resolved(environment).options("elm")


def test_the_command_refuses_a_login_that_cannot_be_used() -> None:
    for arguments in (["waits", "list"], ["serve"]):
        done = CliRunner().invoke(main, [*arguments, "--context", "no-such-context"])
        assert done.exit_code == 2
        assert "no-such-context" in done.stderr


async def test_an_agent_logs_in_by_its_nkey(own_house: House, tmp_path: Path) -> None:
    seed, public = new_nkey(1)
    await asyncio.to_thread(own_house.users, "add", "heath", "--nkey", public)
    file = tmp_path / "heath.nk"
    file.write_text(seed)
    for given in (seed, str(file), str(tmp_path / "{agent}.nk")):
        async with connect("heath", own_house.url, login=Login(nkey=given)) as me:
            await me.send("birch", "note")
    with pytest.raises(Refused):
        async with connect("heath", own_house.url, login=Login(nkey=new_nkey(2)[0])):
            pass


async def test_a_context_of_the_nats_command_says_where_and_who(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = context(tmp_path, "eye", url=house.url, user="eye", password=house.passwords["eye"])
    known |= context(tmp_path, "elm", url=house.url, user="elm", password=house.passwords["elm"])
    for name, text in known.items():
        monkeypatch.setenv(name, text)
    assert (await command("agents", "list", "--context", "eye", "--json")).code == 0
    monkeypatch.setenv("UNKNOT_CONTEXT", "elm")
    async with connect("elm") as me:
        await me.send("birch", "note")


async def test_a_gateway_logs_in_to_a_server_that_has_the_exported_users(tmp_path: Path) -> None:
    """And knows who may be a member of which channel from the same file."""
    house = House(tmp_path / "users.json")
    for user in (("gate", "--role", "gateway"), ("elm",), ("flint", "--channels", "reviews")):
        house.users("add", *user)
    block = CliRunner().invoke(main, ["users", "export", "--users", str(house.file)]).stdout
    server = await EmbeddedServer.start(authorization=block)
    secret = tmp_path / "gate.secret"
    secret.write_text(house.passwords["gate"])
    arguments = ("--users", str(house.file), "--user", "gate", "--password-file", str(secret))
    try:
        with support.running(*arguments, nats=server.url) as gateway:
            async with asyncio.timeout(5):
                while not (ready := [line for line in gateway.logged if line["event"] == "ready"]):  # noqa: ASYNC110  nobody tells
                    await asyncio.sleep(0.02)
            assert not ready[0]["any_inbox"]
            async with connect("flint", server.url, login=house.login("flint"), channels=["reviews"]) as me:
                await me.send("elm", "note")
            async with connect("elm", server.url, login=house.login("elm")) as me:
                refused = await me._links.session.transport.call(
                    "unknot.default.in.elm.hello", b'{"session": "x12345", "channels": ["reviews"]}', 5
                )
                assert refused is not None
                assert json.loads(refused)["error"]["code"] == "not_permitted"
    finally:
        await server.stop()


async def test_creds_files_let_in_the_gateway_the_agents_and_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server in operator mode, as NATS's own tools set it up."""
    configuration = operator_mode(tmp_path, {"gate": ["unknot.>", "_INBOX.>", "$SRV.>"], "elm": own("elm")})
    gate = str(tmp_path / "gate.creds")
    with serving(configuration, tmp_path) as url, support.running("--creds", gate, nats=url):
        async with connect("elm", url, login=Login(creds=str(tmp_path / "{agent}.creds"))) as me:
            await me.send("birch", "note")
            with pytest.raises(Refused, match="UNKNOT_CREDS"):
                await me._links.session.transport.listen("unknot.default.out.birch.>", print)
            monkeypatch.setenv("UNKNOT_CREDS", str(tmp_path / "elm.creds"))
            monkeypatch.setenv("UNKNOT_USER", "elm")
            assert (await command("send", "elm", "note", "--nats", url)).code == 0


async def test_tls_on_both_sides(tmp_path: Path) -> None:
    certificates(tmp_path)
    tls = {"cert_file": "server.crt", "key_file": "server.key", "ca_file": "ca.crt", "verify": True}
    block = ", ".join(f"{name}: {json.dumps(value)}" for name, value in tls.items())
    mine = {"tls_ca": "ca.crt", "tls_cert": "client.crt", "tls_key": "client.key"}
    paths = {name: str(tmp_path / file) for name, file in mine.items()}
    flags = [word for name, path in paths.items() for word in (f"--{name.replace('_', '-')}", path)]
    with serving(f"tls: {{ {block} }}", tmp_path) as url, support.running(*flags, nats=url):
        async with connect("elm", url, login=Login(**paths)) as me:
            await me.send("birch", "note")
        assert (await command("agents", "list", "--nats", url, *flags)).code == 0
        async with asyncio.timeout(3):
            with pytest.raises(Exception, match=r"(?i)certificate"):
                async with connect("elm", url, login=Login(tls_ca=None), timeout=30):
                    pass


def context(home: Path, name: str, **fields: str) -> dict[str, str]:
    """A context as `nats context add` writes it; the environment in which it is found."""
    folder = home / "nats" / "context"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps({"description": "", "jetstream_domain": "", **fields}))
    return {"XDG_CONFIG_HOME": str(home)}


def own(agent: str) -> list[str]:
    return [f"unknot.default.in.{agent}.>", f"unknot.default.out.{agent}.>", f"_INBOX.{agent}.>"]


def new_nkey(number: int, kind: int = nkeys.PREFIX_BYTE_USER) -> tuple[str, str]:
    """Seed and public key number *number*."""
    seed = nkeys.encode_seed(bytes([number]) * 32, kind)
    return seed.decode(), nkeys.from_seed(bytearray(seed)).public_key.decode()


def operator_mode(folder: Path, users: dict[str, Sequence[str]]) -> str:
    """The configuration of a server with one account and *users* (name to subjects); writes their creds files."""
    operator, operator_key = new_nkey(1, nkeys.PREFIX_BYTE_OPERATOR)
    account, account_key = new_nkey(2, nkeys.PREFIX_BYTE_ACCOUNT)
    everything = {"subs": -1, "conn": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1}
    for number, (name, subjects) in enumerate(users.items(), start=10):
        seed, key = new_nkey(number)
        allowed = {"allow": list(subjects)}
        said = {"pub": allowed, "sub": allowed, "subs": -1, "data": -1, "payload": -1, "type": "user"}
        token = jwt(account, account_key, key, name, said | {"version": 2})
        (folder / f"{name}.creds").write_text(
            f"-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n"
            f"-----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
        )
    by_operator = jwt(operator, operator_key, operator_key, "o", {"type": "operator", "version": 2})
    limits = {"limits": everything, "type": "account", "version": 2}
    by_account = jwt(operator, operator_key, account_key, "a", limits)
    return f"operator: {by_operator}\nresolver: MEMORY\nresolver_preload: {{ {account_key}: {by_account} }}\n"


def jwt(issuer: str, issuer_key: str, subject: str, name: str, claims: dict[str, Any]) -> str:
    """*claims* about *subject*, signed by *issuer*."""
    said = {
        "iat": int(time.time()),
        "iss": issuer_key,
        "sub": subject,
        "name": name,
        "jti": name,
        "nats": claims,
    }
    words = [packed(json.dumps(part).encode()) for part in ({"typ": "JWT", "alg": "ed25519-nkey"}, said)]
    signed = nkeys.from_seed(bytearray(issuer.encode())).sign(".".join(words).encode())
    return ".".join([*words, packed(signed)])


def packed(text: bytes) -> str:
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


def certificates(folder: Path) -> None:
    """An authority, and what it has signed for a server on the loopback and for a client."""
    openssl(folder, "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=authority"
            " -keyout ca.key -out ca.crt")  # fmt: skip
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1\n")
    for name in ("server", "client"):
        openssl(folder, "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
                f" -subj /CN={name} -keyout {name}.key -out {name}.csr")  # fmt: skip
        openssl(folder, f"x509 -req -in {name}.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2"
                f" -extfile names -out {name}.crt")  # fmt: skip


def openssl(folder: Path, arguments: str) -> None:
    subprocess.run(["openssl", *arguments.split()], cwd=folder, check=True, capture_output=True)


@contextmanager
def serving(configuration: str, folder: Path) -> Iterator[str]:
    """A server with this configuration; its URL."""
    file = folder / "server.conf"
    file.write_text(
        f"host: 127.0.0.1\nport: -1\nports_file_dir: {json.dumps(str(folder))}\n{configuration}\n"
    )
    process = subprocess.Popen(
        [find_server(), "-c", file], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        ports = folder / f"nats-server_{process.pid}.ports"
        until = time.monotonic() + 10
        while not (ports.exists() and ports.read_text().strip().endswith("}")):
            assert process.poll() is None, "the server did not start"
            assert time.monotonic() < until
            time.sleep(0.01)
        yield str(next(iter(json.loads(ports.read_text()).values()))[0])
    finally:
        process.terminate()
        process.wait(10)
