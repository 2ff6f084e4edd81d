"""Agents of a module: the functions it marks with @handler.

A module is named by its file (`agents.py`) or by its import name (`news.agents`); `:name` behind it takes one
attribute of it, such as a map of functions by facet.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

from afl.kernel.errors import InputError, SourcePlace
from afl.kernel.traceback_text import near, own_place, place_of
from afl.models.model import Model
from afl.models.opening import as_model, is_model
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.runner.registry_handlers import RegistryHandlers
from afl.runtime.task_handlers.handler import Handlers
from afl.runtime.task_handlers.model_handler import model_handler
from afl.runtime.task_handlers.tool_registry import ToolRegistry

HOW = """a handler is a function like this one:

    from afl import handler

    @handler("namespace.Facet")
    def work(parameter: str) -> dict:
        return {"result": parameter}"""


class AgentError(InputError, hint="Correct the module, or its name in the command."):
    """An agent module cannot be used; the text says why and what to do."""


def load_agents(
    modules: Iterable[str],
    store: PersistenceAPI | None = None,
    *,
    otherwise: Callable[[Any], bool] | None = None,
) -> Handlers:
    """The handlers of all the modules together; one facet has one handler.

    Where a module has a map by facet name, a model may stand in it for a function; it works where there is a store to
    meter it in. Without one this only finds out whether the modules can be used. A module without handlers is an
    error, unless `otherwise` finds something else in it.
    """
    merged = Handlers()
    origin: dict[str, str] = {}
    for module in modules:
        found = load_agent(module, store, otherwise=otherwise)
        for name in found.names:
            if name in origin:
                raise AgentError(f"both {origin[name]} and {module} have a handler for {name}; leave one out")
            origin[name] = module
            handler = found.find(name)
            assert handler is not None
            merged.add(handler)
    return merged


def load_agent(
    module: str, store: PersistenceAPI | None = None, *, otherwise: Callable[[Any], bool] | None = None
) -> Handlers:
    """The handlers of one module."""
    source = load_module(module)
    handlers = _handlers(_metered(source, store), module)
    if not handlers.names and not (otherwise is not None and otherwise(source)):
        how = _for_object(source, module) or _for_model(source, module) or HOW
        raise AgentError(f"agent module {module} has no handlers; {how}")
    return handlers


def _for_object(source: Any, module: str) -> str:
    """How an object of the module whose methods are marked is named; empty if it has none."""
    names = [
        name
        for name, value in getattr(source, "__dict__", {}).items()
        if not isinstance(value, (type, ModuleType, Mapping)) and Handlers.of(value).names
    ]
    return f"its object {names[0]!r} has some: --agent {module}:{names[0]}" if names else ""


def _for_model(source: Any, module: str) -> str:
    """How a model that the module has is given facets to answer; empty if it has none."""
    names = [name for name, value in getattr(source, "__dict__", {}).items() if is_model(value)]
    if not names:
        return ""
    how = f'facets = {{"namespace.Facet": {names[0]}}}'
    return (
        f"it has the model {names[0]!r}, so say which facets it answers: {how}, then --agent {module}:facets"
    )


def load_module(module: str) -> Any:
    """What `agents.py`, `news.agents` or `agents.py:name` means: a module, or one attribute of it."""
    name, attribute = _split(module)
    source: Any = _import_file(Path(name)) if _is_path(name) else _import_name(name)
    if not attribute:
        return source
    if attribute not in vars(source):
        raise AgentError(f"agent module {name} has no {attribute!r}")
    return vars(source)[attribute]


def _metered(source: Any, store: PersistenceAPI | None) -> Any:
    if isinstance(source, ToolRegistry):
        return RegistryHandlers(source, [])
    if not isinstance(source, Mapping):
        return source
    work = _unmetered if store is None else partial(model_handler, store=store)
    return {
        name: work(as_model(value)) if isinstance(value, str) or is_model(value) else value
        for name, value in source.items()
    }


def _unmetered(model: Model) -> Callable[..., Any]:
    def refuse(**payload: Any) -> Any:
        raise AgentError(f"model {model.name} cannot be asked without a store that keeps what it uses")

    return refuse


def _handlers(source: Any, module: str) -> Handlers:
    try:
        # One function alone is looked at as a module that has only it.
        return Handlers.of(SimpleNamespace(only=source) if isinstance(source, FunctionType) else source)
    except (InputError, TypeError) as error:
        raise AgentError(f"agent module {module}: {error}") from error


def _split(module: str) -> tuple[str, str]:
    name, separator, attribute = module.rpartition(":")
    return (name, attribute) if separator and attribute.isidentifier() else (module, "")


def _is_path(name: str) -> bool:
    return name.endswith(".py") or os.sep in name


def _import_file(path: Path) -> ModuleType:
    """Import a file under its own name, with its folder importable, as `python agents.py` would have it."""
    if not path.is_file():
        raise AgentError(f"agent module {path} does not exist (from {Path.cwd()})")
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    known = sys.modules.get(path.stem)
    if known is not None and getattr(known, "__file__", None) == str(path.resolve()):
        return known
    name = path.stem if known is None else f"{path.stem}_{abs(hash(folder)):x}"
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    if spec is None or spec.loader is None:
        raise AgentError(f"agent module {path} is not a Python file; its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise _failed(str(path), error) from error
    return module


def _import_name(name: str) -> ModuleType:
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise AgentError(
                f"there is no agent module {name!r}; give a file like agents.py, or the name of a module that "
                f"can be imported from {Path.cwd()}"
            ) from error
        raise _failed(name, error) from error
    except Exception as error:
        raise _failed(name, error) from error


def _failed(module: str, error: Exception) -> AgentError:
    """Why importing failed, with the last place in the agent's own sources: a line deep in a library helps nobody."""
    failed = AgentError(f"agent module {module} cannot be imported: {type(error).__name__}: {error}")
    if isinstance(error, SyntaxError):
        if error.filename and error.lineno:
            failed.place = SourcePlace(near(error.filename), error.lineno, error.offset or None)
            failed.args = (f"agent module {module} cannot be imported: {type(error).__name__}: {error.msg}",)
        return failed
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if "importlib" not in frame.filename and frame.filename != __file__
    ]
    failed.place = own_place(error) or (place_of(frames[-1]) if frames else None)
    return failed
