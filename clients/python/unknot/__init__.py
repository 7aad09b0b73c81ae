"""Agents that ask each other through an unknot gateway, and are told when a wait can never end."""

from unknot._agent import Agent
from unknot._asking import Answer, Request, Waitable
from unknot._channel import BlockingChannel, Channel
from unknot._connection import Connection, connect
from unknot._context import Context
from unknot._event import Event
from unknot._leases import Lease
from unknot._login import BadLogin, Login
from unknot._posts import Post
from unknot._run import run
from unknot._sends import Asked
from unknot._things import Acquire, Artifact, Decision
from unknot._threads import ThreadContext
from unknot.errors import (
    Cancelled,
    DeadlockDetected,
    Denied,
    Handled,
    HandlerFailed,
    LeaseLost,
    OverLimit,
    Refused,
    ResponderLost,
    UnknotError,
    Unreachable,
    WaitExpired,
    WaitFailed,
)

__all__ = [
    "Acquire",
    "Agent",
    "Answer",
    "Artifact",
    "Asked",
    "BadLogin",
    "BlockingChannel",
    "Cancelled",
    "Channel",
    "Connection",
    "Context",
    "DeadlockDetected",
    "Decision",
    "Denied",
    "Event",
    "Handled",
    "HandlerFailed",
    "Lease",
    "LeaseLost",
    "Login",
    "OverLimit",
    "Post",
    "Refused",
    "Request",
    "ResponderLost",
    "ThreadContext",
    "UnknotError",
    "Unreachable",
    "WaitExpired",
    "WaitFailed",
    "Waitable",
    "connect",
    "run",
]
