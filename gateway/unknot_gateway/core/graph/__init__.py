"""The exact wait graph: who waits for whom and for what, and who of them can never go on."""

from unknot_gateway.core.graph.conditions import (
    NEVER,
    OUTSIDE,
    Artifact,
    Condition,
    Label,
    Node,
    Resource,
    Wait,
    any_of,
    artifact,
    execution,
    resource,
)
from unknot_gateway.core.graph.graph import Graph
from unknot_gateway.core.graph.report import Core

__all__ = [
    "NEVER",
    "OUTSIDE",
    "Artifact",
    "Condition",
    "Core",
    "Graph",
    "Label",
    "Node",
    "Resource",
    "Wait",
    "any_of",
    "artifact",
    "execution",
    "resource",
]
