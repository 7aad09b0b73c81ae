"""Locks, permits, artifacts, approvals, and what is reported of things outside."""
