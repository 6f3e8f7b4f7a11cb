"""What an agent may do, who is asked, and which folders are believed.

Rules and a mode decide about a call before it runs. They are no sandbox: a program that may run
does what it likes.
"""

from .gate import AllowAlways, AllowOnce, Answer, Deny, PermissionGate, Question, permission_gate
from .policy import MODES, Decision, Mode, Policy
from .rules import Effect, MalformedRule, Rule, parse_rule, parse_rules
from .trust import TrustFile, TrustFileUnsafe, what_needs_trust

__all__ = [
    "MODES",
    "AllowAlways",
    "AllowOnce",
    "Answer",
    "Decision",
    "Deny",
    "Effect",
    "MalformedRule",
    "Mode",
    "PermissionGate",
    "Policy",
    "Question",
    "Rule",
    "TrustFile",
    "TrustFileUnsafe",
    "parse_rule",
    "parse_rules",
    "permission_gate",
    "what_needs_trust",
]
