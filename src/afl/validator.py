"""The validator under its public name; see `afl.language.validator`."""

from afl.language.diagnostics import ValidationError, ValidationResult
from afl.language.validator import AFLValidator, validate

__all__ = ["AFLValidator", "ValidationError", "ValidationResult", "validate"]
