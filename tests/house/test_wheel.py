"""What the built wheel holds, and what it brings to a user."""

import json
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.house.environments import Environment
from tests.house.tree import PACKAGES, ROOT

pytestmark = [pytest.mark.once, pytest.mark.timeout(300)]

INSTALLED = (
    "import json; from importlib.metadata import distributions as d; print(json.dumps([x.name for x in d()]))"
)
LOADED = "import json, sys; from unknot import Agent; print(json.dumps(sorted(sys.modules)))"
OF_AN_AGENT = {"unknot", "nats-py", "msgspec", "anyio", "idna", "typing_extensions"}


def test_the_wheel_holds_the_three_packages_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert tops == {*PACKAGES, "unknot-0.1.0.dist-info"}
    assert {f"{package}/py.typed" for package in PACKAGES} <= set(names)
    assert [name for name in names if name.endswith("ruff.toml")] == []


def test_every_module_is_in_the_wheel(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    ours = {
        f"{package}/{path.relative_to(folder).as_posix()}"
        for package, folder in PACKAGES.items()
        for path in folder.rglob("*.py")
    }
    assert ours <= names


def test_without_extras_an_agent_pulls_nothing_of_the_gateway(
    of_an_agent: Environment, tmp_path: Path
) -> None:
    installed = set(json.loads(of_an_agent.run("python", "-c", INSTALLED, cwd=tmp_path).stdout))
    assert installed <= OF_AN_AGENT
    done = of_an_agent.run("python", "-c", LOADED, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [name for name in json.loads(done.stdout) if name.startswith("unknot_gateway")] == []


def test_without_the_extra_the_command_says_what_to_install(of_an_agent: Environment, tmp_path: Path) -> None:
    says_what_to_install(of_an_agent, tmp_path)


def test_so_it_does_where_click_is_installed_for_something_else(wheel: Path, tmp_path: Path) -> None:
    says_what_to_install(Environment.make(tmp_path / "environment", str(wheel), "click"), tmp_path)


def says_what_to_install(environment: Environment, folder: Path) -> None:
    done = environment.run("unknot", "serve", cwd=folder)
    assert done.returncode == 2
    assert "pip install 'unknot[gateway]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_with_the_gateway_extra_the_command_works(of_a_gateway: Environment, tmp_path: Path) -> None:
    done = of_a_gateway.run("unknot", "demo", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "deadlock" in done.stdout


def test_the_version_is_the_same_everywhere(of_a_gateway: Environment, tmp_path: Path) -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert version in of_a_gateway.run("unknot", "--version", cwd=tmp_path).stdout
    assert f"## [{version}]" in (ROOT / "CHANGELOG.md").read_text()
