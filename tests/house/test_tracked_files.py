"""What is in the repository is about the project, not about the machine it was written on."""

from pathlib import Path

import pytest

from tests.house.tree import ROOT, files, name_of

pytestmark = pytest.mark.once

# Put together here, so that this file does not name them either.
REGISTRY_HOSTS = [
    ".".join(words)
    for words in (("pypi", "org"), ("files", "pythonhosted"), ("npmjs", "org"), ("deb", "debian"))
]


def lines_with(needle: str) -> list[str]:
    return [
        f"{name_of(path)}:{number}"
        for path in files()
        for number, line in enumerate(path.read_bytes().splitlines(), 1)
        if needle.encode() in line
    ]


@pytest.mark.parametrize("folder", [ROOT, Path.home()], ids=["checkout", "home"])
def test_no_path_of_this_machine_is_in_a_file(folder: Path) -> None:
    assert lines_with(f"{folder}/") == []


@pytest.mark.parametrize("host", REGISTRY_HOSTS)
def test_no_file_names_a_registry(host: str) -> None:
    """Where packages come from is decided by whoever installs them."""
    assert lines_with(host) == []
