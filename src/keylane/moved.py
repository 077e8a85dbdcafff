"""Modules under the names they had before: an import by an old, documented name gives the module of today.

`keylane/__init__` puts `Moved` behind Python's own finders, so it is asked only for names that nothing else has. An old
name warns with DeprecationWarning, which names the new one. Nothing in keylane itself uses this.
"""

from __future__ import annotations

from importlib.machinery import ModuleSpec
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["MOVED", "Moved"]

#: Old name -> new name, without `keylane.`: what docs/ has named for import.
MOVED: Final = {
    "budget.layout": "brokers.layout",
    "budget.rebalance": "brokers.rebalance",
    "geo.pack": "geo.lane_tables",
    "geo.rebalance": "geo.lane_tables",
    "geo.split": "geo.lane_tables",
    "measure.alarm": "measure.chance",
    "pipelines.match.stream": "pipelines.match.follow",
    "plan.budget": "brokers.layout",
    "plan.ceiling": "plan.bounds",
    "plan.make": "plan.planner",
    "plan.reassign": "brokers.rebalance",
    "plan.written": "plan.contract_text",
}
#: Packages of old names, without `keylane.`; those that are still there Python finds itself.
PACKAGES: Final = frozenset(old.rpartition(".")[0] for old in MOVED)


class Moved:
    """Finds and loads a module by its old name: the finder and the loader of Python's import system in one."""

    @staticmethod
    def find_spec(name: str, _path: object = None, _target: object = None) -> ModuleSpec | None:
        """The spec of an old name; None for every other."""
        old = name.removeprefix("keylane.")
        if old == name or old not in PACKAGES | MOVED.keys():
            return None
        loader: Any = Moved  # A class whose methods are static is as good as an object; the stubs know objects only.
        return ModuleSpec(name, loader, is_package=old in PACKAGES)

    @staticmethod
    def create_module(_spec: ModuleSpec) -> ModuleType | None:
        """None: Python makes an empty module, which `exec_module` replaces."""
        return None

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        """Put the module of today under the old name: both names are one module, and its classes are the same.

        A package that is gone is empty: each of its modules is found by its own old name.
        """
        if module.__name__.removeprefix("keylane.") not in MOVED:
            return
        import sys
        import warnings
        from importlib import import_module

        new = f"keylane.{MOVED[module.__name__.removeprefix('keylane.')]}"
        warnings.warn(f"{module.__name__} has moved: import {new}", DeprecationWarning, stacklevel=2)
        sys.modules[module.__name__] = import_module(new)
