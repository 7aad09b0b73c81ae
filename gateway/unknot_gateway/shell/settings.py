"""What an operator may set: flags before environment before file before default."""

import math
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct, field

from unknot_gateway.core.kernel import KernelConfig, Policy
from unknot_gateway.core.limits import Limits
from unknot_gateway.shell.limits import CONNECT_PATIENCE_S
from unknot_schemas import ids, limits
from unknot_schemas.subjects import DEFAULT_NETWORK, DEFAULT_PREFIX

ENVIRONMENT_PREFIX = "UNKNOT_"
_LISTS = frozenset({"networks"})
_ONLY_IN_THE_FILE = frozenset({"network", "detect_after_s"})
_KINDS = frozenset(
    {"reply", "agent", "lock", "permits", "artifact", "task", "approval", "event", "observed", "reported"}
)


class BadSettings(Exception):
    """A setting cannot be used; the text says which, where it came from and what is allowed."""


class NetworkSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``[network.NAME]`` of the file: what differs in one network. None: as for all."""

    policy: Policy | None = None
    assume_serial: bool | None = None
    messages_max: int | None = None
    bytes_max: int | None = None
    agents_max: int | None = None
    requests_per_s: float | None = None
    detect_after_s: dict[str, float] | None = None


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings of ``unknot serve``."""

    nats: str | None = None
    """URL of a NATS server; None: an embedded one."""
    connect_s: float = CONNECT_PATIENCE_S
    """Patience for that server at the start; afterwards the gateway tries for as long as it lives."""
    port: int = 4222
    """Of the embedded server; 0 or -1: a free one."""
    data: str | None = None
    """Folder of the embedded server's JetStream; None: a temporary one, gone at the end."""
    users: str | None = None
    """File of the users; None: there are none, and whoever reaches the server may act as any agent."""
    networks: list[str] = field(default_factory=lambda: [DEFAULT_NETWORK])
    prefix: str = DEFAULT_PREFIX
    policy: Policy = "fail_all"
    assume_serial: bool = True
    any_inbox: bool | None = None
    """Development mode: any ``_INBOX.`` is a legal reply subject; None: only on a server of this machine's loopback,
    where nobody logs in."""
    system_user: str | None = None
    """User of the system account of the server at *nats*, which hears whose connection has ended; also by *_creds or
    *_nkey. None of them: a dead agent is noticed by its silence alone. The embedded server has one by itself."""
    system_password: str | None = None
    system_password_file: str | None = None
    system_creds: str | None = None
    system_nkey: str | None = None
    session_loss_s: float = limits.SESSION_LOSS_S
    disconnect_grace_s: float = limits.DISCONNECT_GRACE_S
    probe_s: float = 0.25
    sweep_s: float = 1.0
    messages_max: int = Limits().messages_max
    """Quotas of each network: open messages, bytes of their data, agents, and what each agent may begin a second
    (None: as much as is handled)."""
    bytes_max: int = Limits().held_events_bytes_max
    agents_max: int = Limits().agents_max
    requests_per_s: float | None = None
    detect_after_s: dict[str, float] = {}
    """How long a wait must have stood to count in a deadlock: by kind (``lock``), else by evidence (``reported``).
    Only in the file."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    network: dict[str, NetworkSettings] = {}

    def kernel_config(self, network: str) -> KernelConfig:
        """What holds in *network*."""
        own = self.network.get(network, NetworkSettings())
        return KernelConfig(
            policy=self.policy if own.policy is None else own.policy,
            assume_serial=self.assume_serial if own.assume_serial is None else own.assume_serial,
            session_loss_s=self.session_loss_s,
            disconnect_grace_s=self.disconnect_grace_s,
            probe_s=self.probe_s,
            sweep_s=self.sweep_s,
            detect_after_s=self.detect_after_s if own.detect_after_s is None else own.detect_after_s,
            limits=self._quotas(own),
        )

    def _quotas(self, own: NetworkSettings) -> Limits:
        return Limits(
            messages_max=self.messages_max if own.messages_max is None else own.messages_max,
            held_events_bytes_max=self.bytes_max if own.bytes_max is None else own.bytes_max,
            agents_max=self.agents_max if own.agents_max is None else own.agents_max,
            requests_per_s=self.requests_per_s if own.requests_per_s is None else own.requests_per_s,
        )


def load(flags: Mapping[str, Any], environment: Mapping[str, str], file: str | None = None) -> Settings:
    """Merge all sources; flags that are None were not given. Raises BadSettings."""
    merged = _from_file(file) if file else {}
    _convert(merged, f"file {file}")
    merged |= _from_environment(environment)
    _convert(merged, "environment")
    merged |= {name: value for name, value in flags.items() if value is not None}
    return _checked(_convert(merged, "flags"))


def _from_file(file: str) -> dict[str, Any]:
    try:
        return tomllib.loads(Path(file).read_text("utf-8"))
    except OSError as error:
        raise BadSettings(f"cannot read {file}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadSettings(f"{file} is no TOML: {error}") from error


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in Settings.__struct_fields__:
        text = environment.get(ENVIRONMENT_PREFIX + name.upper())
        if text and name not in _ONLY_IN_THE_FILE:
            found[name] = text.split(",") if name in _LISTS else text
    return found


def _convert(values: dict[str, Any], source: str) -> Settings:
    try:
        return msgspec.convert(values, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise BadSettings(f"{source}: {error}") from error


def _checked(settings: Settings) -> Settings:
    if not settings.networks:
        raise BadSettings("networks: at least one is needed")
    for name in (*settings.networks, *settings.network):
        if not ids.is_id(name):
            raise BadSettings(f"{name!r} cannot name a network: letters, digits, '_' and '-', at most 64")
    if len(set(settings.networks)) != len(settings.networks):
        raise BadSettings("networks: one is named twice")
    for name in settings.network:
        if name not in settings.networks:
            raise BadSettings(f"[network.{name}] is set, but {name!r} is not among networks")
    if not ids.is_type(settings.prefix) or len(settings.prefix) > limits.PREFIX_CHARS_MAX:
        raise BadSettings(
            f"{settings.prefix!r} cannot be a prefix: lower-case dotted words, at most 64 characters"
        )
    if settings.users is not None and settings.any_inbox:
        raise BadSettings(
            "any_inbox and users exclude each other: a reply subject is legal under the own inbox alone"
        )
    for quotas in (settings, *settings.network.values()):
        for name in ("messages_max", "bytes_max", "agents_max", "requests_per_s"):
            if (quota := getattr(quotas, name)) is not None and not 0 < quota < math.inf:
                raise BadSettings(f"{name}: {quota} allows nothing; a quota is a number above 0")
    for named in (settings.detect_after_s, *(own.detect_after_s for own in settings.network.values())):
        _check_detection(named or {})
    if settings.system_user and not (settings.system_password or settings.system_password_file):
        raise BadSettings(
            "system_user: its password is needed, by system_password_file or UNKNOT_SYSTEM_PASSWORD"
        )
    if not -1 <= settings.port <= 65_535:
        raise BadSettings(f"port {settings.port} is none")
    return settings


def _check_detection(after_s: Mapping[str, float]) -> None:
    for kind, seconds in after_s.items():
        if kind not in _KINDS or not 0 <= seconds <= limits.TIMEOUT_MAX_S:
            kinds = ", ".join(sorted(_KINDS))
            raise BadSettings(f"detect_after_s: {kind} = {seconds}: a kind of waits ({kinds}) and seconds")
