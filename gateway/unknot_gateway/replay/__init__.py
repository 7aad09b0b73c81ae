"""Recorded reports of waits, folded over time through the gateway's own engine: pure, without files or clock."""

from unknot_gateway.replay.recording import Replay
from unknot_gateway.replay.times import Clock
from unknot_gateway.replay.verdicts import (
    Cured,
    Dissolved,
    Edge,
    End,
    Finding,
    Incident,
    MalformedLine,
    Orphaned,
    Outside,
    Unresolved,
)

__all__ = [
    "Clock",
    "Cured",
    "Dissolved",
    "Edge",
    "End",
    "Finding",
    "Incident",
    "MalformedLine",
    "Orphaned",
    "Outside",
    "Replay",
    "Unresolved",
]
