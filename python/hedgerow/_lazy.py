"""Modules imported at their first use, at the cost of one attribute access afterwards."""

from __future__ import annotations

import sys


class LazyModule:
    """Stands in for a module until one of its names is asked for."""

    def __init__(self, name: str) -> None:
        """Remember the absolute name of the module."""
        self.__dict__["_name"] = name

    def __getattr__(self, attribute: str) -> object:
        """Import the module and take over its names, so that this runs once."""
        name: str = self.__dict__["_name"]
        __import__(name)
        module = sys.modules[name]
        self.__dict__.update({key: value for key, value in vars(module).items() if not key.startswith("__")})
        value: object = getattr(module, attribute)
        return value
