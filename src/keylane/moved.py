"""Modules under the names they had before: an import by an old, documented name gives the module of today.

`keylane/__init__` puts `Moved` behind Python's own finders, so it is asked only for names that nothing else has. An old
name warns with DeprecationWarning, which names the new one. Nothing in keylane itself uses this.
"""

from __future__ import annotations

from importlib.machinery import ModuleSpec
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["MOVED", "Moved"]

#: Old name -> new name, without `keylane.`: what docs/ of version 0.1 told readers to import.
MOVED: Final = {
    "geo.pack": "geo.lane_tables",
    "geo.rebalance": "geo.lane_tables",
    "geo.split": "geo.lane_tables",
    "measure.alarm": "measure.chance",
    "pipelines.match.stream": "pipelines.match.follow",
    "plan.budget": "budget.layout",
    "plan.ceiling": "plan.bounds",
    "plan.make": "plan.planner",
    "plan.reassign": "budget.rebalance",
    "plan.written": "plan.contract_text",
}


class Moved:
    """Finds and loads a module by its old name: the finder and the loader of Python's import system in one."""

    @staticmethod
    def find_spec(name: str, _path: object = None, _target: object = None) -> ModuleSpec | None:
        """The spec of an old name; None for every other."""
        return ModuleSpec(name, Moved) if name.removeprefix("keylane.") in MOVED else None  # type: ignore[arg-type]

    @staticmethod
    def create_module(_spec: ModuleSpec) -> ModuleType | None:
        """None: Python makes an empty module, which `exec_module` replaces."""
        return None

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        """Put the module of today under the old name: both names are one module, and its classes are the same."""
        import sys
        import warnings
        from importlib import import_module

        new = f"keylane.{MOVED[module.__name__.removeprefix('keylane.')]}"
        warnings.warn(f"{module.__name__} has moved: import {new}", DeprecationWarning, stacklevel=2)
        sys.modules[module.__name__] = import_module(new)
