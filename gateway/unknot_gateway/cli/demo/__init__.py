"""``unknot demo``: a recorded run in which all agents are healthy and none will ever finish, replayed by processes."""

from unknot_gateway.cli.demo.command import demo_command

__all__ = ["demo_command"]
