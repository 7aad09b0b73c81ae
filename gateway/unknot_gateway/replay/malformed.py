"""What makes a line unusable."""


class Malformed(ValueError):
    """A line says nothing that can be used; the message says why."""
