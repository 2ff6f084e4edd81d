"""The darkroom of fanout.afl: results as dataclasses, and progress while the work goes on."""

import time
from dataclasses import dataclass

from afl import HandlerContext, handler

BATHS = ("developer", "stop bath", "fixer")


@dataclass
class Photo:
    title: str
    grain: float


@dataclass
class Developed:
    """What Develop returns: fields of a dataclass are returns of the facet."""

    photo: Photo


@handler("darkroom.Unpack")
def unpack(count: int) -> dict[str, list[str]]:
    return {"negatives": [f"negative {number:02}" for number in range(1, count + 1)]}


@handler("darkroom.Develop")
def develop(negative: str, context: HandlerContext) -> Developed:
    number = int(negative.split()[1])
    for done, bath in enumerate(BATHS):
        context.progress(done / len(BATHS), bath)
        time.sleep(0.05 + number % 5 / 50)
    return Developed(Photo(negative.replace("negative", "photo"), number % 7 / 10))
