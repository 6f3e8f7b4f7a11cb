"""Errors in the middle of a stream that no field `error` names, as some hosts and gateways send them. (pure)

Not here: what an error means (failures.py).
"""

from __future__ import annotations

from typing import Any, cast

__all__ = ["error_in"]

_NO_FAULT = (0, 200, "0", "200")
"""Codes with which gateways say, in the same fields, that all is well."""


def error_in(document: Any) -> Any:
    """The error that *document* is, which no field `error` says: vLLM and what is built on it wrote
    `{"object": "error", ...}`, gateways send the fields bare, MiniMax a status within a reply. None
    for anything else."""
    if not isinstance(document, dict):
        return None
    fields = cast("dict[str, Any]", document)
    status: Any = fields.get("base_resp")
    if isinstance(status, dict):
        said = cast("dict[str, Any]", status)
        if said.get("status_code"):
            return {"message": f"{said.get('status_msg')} (status {said['status_code']})"}
    if fields.get("choices") or fields.get("usage"):
        return None
    told = any(
        isinstance(fields.get(name), str) for name in ("message", "msg", "detail", "details")
    )
    coded = "code" in fields and fields["code"] not in _NO_FAULT
    named = fields.get("object") == "error" or coded or "detail" in fields
    kind = fields.get("type")
    named = named or (isinstance(kind, str) and kind.lower().endswith("error"))
    return fields if told and named else None
