"""``unknot conformance``: the laws of the wire for clients, shown from outside on any program that plays the role."""

from unknot_gateway.cli.conformance.command import conformance_command

__all__ = ["conformance_command"]
