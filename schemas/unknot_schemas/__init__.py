"""The contract of unknot's wire, version 1: bodies, subjects, ids, limits, error codes. Imports msgspec only."""

from unknot_schemas import bodies, errors, holds, ids, limits, resources, subjects
from unknot_schemas.subjects import Subjects

__all__ = ["Subjects", "bodies", "errors", "holds", "ids", "limits", "resources", "subjects"]
