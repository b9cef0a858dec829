"""JSON in files: pretty, sorted, one line end at the end."""

from __future__ import annotations

import json
from typing import Any

from ._errors import InvalidJsonError


def dump(value: object, indent: int | None, sort_keys: bool) -> str:
    """Return `value` as JSON text with one newline at the end."""
    text = json.dumps(value, indent=indent, sort_keys=sort_keys, ensure_ascii=False, allow_nan=False, default=_plain)
    try:
        text.encode()
    except UnicodeEncodeError:  # lone surrogates, such as those in names that are not UTF-8
        text = json.dumps(value, indent=indent, sort_keys=sort_keys, allow_nan=False, default=_plain)
    return text + "\n"


def load(text: str, path: str) -> Any:
    """Read JSON text; `path` is for the message alone."""
    try:
        return json.loads(text.removeprefix("\ufeff"))
    except json.JSONDecodeError as error:
        message = f"{error.msg} at line {error.lineno}, column {error.colno}"
    except RecursionError:
        message = "nested too deeply"
    raise InvalidJsonError("invalid-argument", message, path, "Read the file as text and correct it.")


def _plain(value: Any) -> object:
    """Turn what `json` does not know into what it does: records, dataclasses, pydantic models, times and paths."""
    import dataclasses
    import datetime
    import os

    if hasattr(value, "to_dict"):
        return value.to_dict()
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")
