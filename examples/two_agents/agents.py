"""A clerk of the post office: slow enough that somebody can be struck down at work."""

import os
import time

from afl import HandlerContext, handler


@handler("post.Sort")
def sort(letter: str, context: HandlerContext) -> dict[str, str]:
    clerk = os.environ.get("CLERK", "somebody")
    context.log(f"{clerk} takes {letter}" + (", again" if context.attempt > 1 else ""))
    time.sleep(0.3)
    return {"by": clerk}
