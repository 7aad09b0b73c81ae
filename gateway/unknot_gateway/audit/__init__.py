"""A static check of agent code for waits that unknot cannot see. By syntax alone: nothing of it is imported or run."""

from unknot_gateway.audit.report import audit, audit_file, audit_text
from unknot_gateway.audit.rules import RULES, Finding, Rule
from unknot_gateway.audit.source import Unreadable

__all__ = ["RULES", "Finding", "Rule", "Unreadable", "audit", "audit_file", "audit_text"]
