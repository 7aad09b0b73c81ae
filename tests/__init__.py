"""Tests state laws: the name of a test is the sentence it proves."""
