"""The telephone exchange of retry.afl: busy at first, and strict about numbers."""

from afl import HandlerContext, handler

BUSY_FOR = 2


class Busy(Exception):
    """Worth another attempt: the policy in the workflow lists this name."""


class WrongNumber(Exception):
    """Not worth one."""


@handler("exchange.Call")
def call(number: str, context: HandlerContext) -> dict[str, str]:
    context.log(f"attempt {context.attempt}: calling {number}")
    if number.startswith("000"):
        raise WrongNumber(f"{number} is no number")
    if context.attempt <= BUSY_FOR:
        raise Busy(f"the line to {number} is busy")
    return {"answer": f"hello, at attempt {context.attempt}"}
