"""Stand-ins for tests of your own programs: a scripted model, and a switch against real requests.

The product itself never imports this package; only the command line's demo does.
"""

from ..models.offline import forbid_model_requests
from .decode import decode
from .scripted import Call, Reply, ScriptedModel, ScriptedRequest

__all__ = [
    "Call",
    "Reply",
    "ScriptedModel",
    "ScriptedRequest",
    "decode",
    "forbid_model_requests",
]
