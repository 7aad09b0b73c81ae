"""Settings: flags before environment before file before default, and nothing is taken that cannot be used."""

from pathlib import Path
from typing import Any

import pytest

from unknot_gateway.shell.settings import BadSettings, Settings, load


def file(folder: Path, text: str) -> str:
    path = folder / "unknot.toml"
    path.write_text(text)
    return str(path)


def test_flags_go_before_environment_before_file_before_default(tmp_path: Path) -> None:
    named = file(tmp_path, 'policy = "shadow"\nport = 1\nprobe_s = 1\n')
    environment = {"UNKNOT_POLICY": "refuse", "UNKNOT_PORT": "2", "OTHER_POLICY": "x"}
    found = load({"policy": "fail_all", "port": None}, environment, named)
    assert (found.policy, found.port, found.probe_s, found.sweep_s) == (
        "fail_all",
        2,
        1.0,
        Settings().sweep_s,
    )


def test_nothing_given_means_the_defaults() -> None:
    assert load({}, {}) == Settings()


def test_lists_in_the_environment_are_split_at_commas() -> None:
    assert load({}, {"UNKNOT_NETWORKS": "a,b"}).networks == ["a", "b"]


def test_what_must_stand_before_it_counts_is_set_by_kind(tmp_path: Path) -> None:
    text = 'networks = ["a", "b"]\n[detect_after_s]\nlock = 2\n[network.b.detect_after_s]\nreported = 9.5\n'
    found = load({}, {"UNKNOT_DETECT_AFTER_S": "1"}, file(tmp_path, text))
    assert found.kernel_config("a").detect_after_s == {"lock": 2.0}
    assert found.kernel_config("b").detect_after_s == {"reported": 9.5}
    for wrong in ("window = 1", "lock = -1"):
        with pytest.raises(BadSettings, match="detect_after_s"):
            load({}, {}, file(tmp_path, f"[detect_after_s]\n{wrong}\n"))


def test_a_network_may_differ(tmp_path: Path) -> None:
    named = file(tmp_path, 'networks = ["a", "b"]\n[network.b]\npolicy = "shadow"\nassume_serial = false\n')
    found = load({}, {}, named)
    assert found.kernel_config("a").policy == "fail_all"
    assert found.kernel_config("a").assume_serial
    assert found.kernel_config("b").policy == "shadow"
    assert not found.kernel_config("b").assume_serial


@pytest.mark.parametrize(
    ("flags", "environment", "text", "said"),
    [
        ({}, {}, 'policy = "loud"', "file .*policy"),
        ({}, {}, "colour = 1", "colour"),
        ({}, {}, "policy =", "no TOML"),
        ({}, {"UNKNOT_PORT": "many"}, "", "environment.*port"),
        ({"networks": ["a b"]}, {}, "", "a b"),
        ({"networks": ["a", "a"]}, {}, "", "twice"),
        ({"networks": []}, {}, "", "at least one"),
        ({"port": 70_000}, {}, "", "70000"),
        ({"prefix": "A.b"}, {}, "", "A.b"),
        ({}, {}, '[network.other]\npolicy = "shadow"', "other"),
        ({"agents_max": 0}, {}, "", "agents_max"),
        ({}, {"UNKNOT_REQUESTS_PER_S": "inf"}, "", "requests_per_s"),
        ({}, {}, "[network.default]\nbytes_max = -1", "bytes_max"),
    ],
)
def test_what_cannot_be_used_is_refused_with_its_source(
    flags: dict[str, Any], environment: dict[str, str], text: str, said: str, tmp_path: Path
) -> None:
    with pytest.raises(BadSettings, match=f"(?s){said}"):
        load(flags, environment, file(tmp_path, text))


def test_quotas_hold_for_all_networks_but_those_that_have_their_own(tmp_path: Path) -> None:
    text = 'networks = ["a", "b"]\nmessages_max = 10\nrequests_per_s = 5\n[network.b]\nmessages_max = 3\nbytes_max = 9'
    found = load({}, {"UNKNOT_AGENTS_MAX": "7"}, file(tmp_path, text))
    a, b = found.kernel_config("a").limits, found.kernel_config("b").limits
    assert (a.messages_max, a.held_events_bytes_max, a.agents_max, a.requests_per_s) == (10, 1 << 30, 7, 5)
    assert (b.messages_max, b.held_events_bytes_max, b.agents_max, b.requests_per_s) == (3, 9, 7, 5)
    assert found.kernel_config("a").limits.queue_max == load({}, {}).kernel_config("default").limits.queue_max


def test_a_file_that_is_not_there_is_refused() -> None:
    with pytest.raises(BadSettings, match="cannot read"):
        load({}, {}, "no/such/file.toml")
