"""The judge: it reads histories, and shares no code with what made them."""

from . import (causality, convergence, counters, deletion, past, registers, rights, serializability, sessions, sets,
               transactions)
from .histories import Operation, Violation, operations

CLAIMS = {
    module.CLAIM: module for module in (
        convergence, sets, registers, counters, causality, transactions, sessions, serializability, past, deletion,
        rights)
}


def judge(history):
    """All violations of a history (a list of operations), in the order of the claims."""
    return [violation for module in CLAIMS.values() for violation in module.judge(history)]


__all__ = ["CLAIMS", "Operation", "Violation", "judge", "operations"]
