"""The emitter under its public name; see `afl.language.emitter`."""

from afl.language.emitter import JSONEmitter, emit_dict, emit_json

__all__ = ["JSONEmitter", "emit_dict", "emit_json"]
