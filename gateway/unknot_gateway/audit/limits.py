"""Bounds of an audit, and why they are what they are."""

from typing import Final

FILE_BYTES_MAX: Final = 2 * 1024 * 1024
"""A larger file is a finding: code written by people is smaller, and a parse takes fifty times its size."""
INFERENCE_DEPTH_MAX: Final = 12
"""Steps from a name to what it is; beyond it is unknown."""
ANNOTATION_CHARS_MAX: Final = 1_000
"""A quoted annotation that is longer is not read."""
SHOWN_CHARS_MAX: Final = 60
"""Of an expression in a finding."""
