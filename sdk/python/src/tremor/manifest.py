"""The manifest of a plugin, and the entry point of its program."""

from __future__ import annotations

import json
import os
import re
import sys
from typing import Any, Dict, List, Optional, Sequence, Type

from .connector import Component
from .message import VERSION
from .system import is_started_by_runtime

__all__ = ["manifest", "run"]


def _main() -> Any:
    return sys.modules.get("__main__")


def _module() -> Optional[str]:
    """Returns the name of the module that was started with `python3 -m`."""
    spec = getattr(_main(), "__spec__", None)
    if spec is None:
        return None
    name: str = spec.name
    return name[: -len(".__main__")] if name.endswith(".__main__") else name


def _command() -> List[str]:
    module = _module()
    if module is not None:
        return ["python3", "-m", module]
    return ["python3", os.path.basename(getattr(_main(), "__file__", None) or "plugin.py")]


def _plugin_name() -> str:
    name = (_module() or os.path.splitext(_command()[1])[0]).rpartition(".")[2]
    return name[: -len("_plugin")] if name.endswith("_plugin") else name


def manifest(
    connectors: Sequence[Type[Component]],
    *,
    name: Optional[str] = None,
    version: Optional[str] = None,
    command: Optional[Sequence[str]] = None,
) -> Dict[str, Any]:
    """Returns the manifest of a plugin, which tremor reads from a file `NAME.plugin.json`."""
    names = [it._name() for it in connectors]
    for it in names:
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", it):
            raise ValueError(f"invalid name `{it}`: expected ASCII letters, digits, `_`, `-` and `.`")
    twice = next((it for it in names if names.count(it) > 1), None)
    if twice:
        raise ValueError(f"two connectors have the name `{twice}`")
    return {
        "protocol": VERSION,
        "name": name or _plugin_name(),
        "version": version or getattr(_main(), "__version__", None) or "0.0.0",
        "command": list(command or _command()),
        "connectors": [it._describe() for it in connectors],
    }


def run(
    *connectors: Type[Component],
    name: Optional[str] = None,
    version: Optional[str] = None,
    command: Optional[Sequence[str]] = None,
) -> None:
    """Runs the program of a plugin. Call it as the last statement.

    With the argument `--describe`, it prints the manifest. If tremor has started the program, it serves the connectors
    until tremor ends it. `name` and `version` are those of the plugin, and `command` starts its program from the folder
    of the manifest. By default they follow from the way in which the program was started.
    """
    if not connectors:
        raise ValueError("a plugin has at least one connector")
    arguments = sys.argv[1:]
    if "--describe" in arguments:
        made = manifest(connectors, name=name, version=version, command=command)
        print(json.dumps(made, indent=2, ensure_ascii=False))
        return
    if not arguments and is_started_by_runtime():
        from .process import serve

        serve(connectors)
        return
    program = " ".join(_command())
    print(
        f"{program} is a plugin of tremor, which tremor starts. To create its manifest, run:\n"
        f"  {program} --describe > {name or _plugin_name()}.plugin.json",
        file=sys.stderr,
    )
    sys.exit(2)
