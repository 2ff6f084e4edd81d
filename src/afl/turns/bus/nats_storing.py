"""Publishing one row of the outbox to a stream: behind the sequence that its subject must have, and once."""

from __future__ import annotations

import nats.errors
import nats.js.errors
from nats.js import JetStreamContext

from afl.kernel.codec import encode
from afl.kernel.errors import PayloadError
from afl.turns.bus.nats_listening import MESSAGE_ID
from afl.turns.bus.outbox import OutboxRow

EXPECTED = "Nats-Expected-Last-Subject-Sequence"
REFUSED = (nats.errors.MaxPayloadError, nats.errors.BadSubjectError, PayloadError, UnicodeError)
WRONG_LAST = 10071  # the server's code for an expected sequence that is not the last


async def store_one(js: JetStreamContext, stream: str, row: OutboxRow, last: int) -> int:
    """Publish a row behind the last sequence of its subject; the sequence it got, now or before."""
    while True:
        headers = {**row.message.headers, MESSAGE_ID: row.out_id, EXPECTED: str(last)}
        data = encode(dict(row.message.payload)).encode()
        try:
            answer = await js.publish(row.message.subject, data, headers=headers)
            return answer.seq
        except nats.js.errors.APIError as error:
            if error.err_code != WRONG_LAST:
                raise
        found, last = await _look_back(js, stream, row, last)
        if found:
            return last


async def _look_back(js: JetStreamContext, stream: str, row: OutboxRow, last: int) -> tuple[bool, int]:
    """Whether the row is on the stream already, behind the sequence we know, and the last of its subject now.

    A relay may have died between publishing and recording; another one, or a stranger, may have published since.
    """
    subject, place = row.message.subject, last
    while True:
        try:
            message = await js.get_msg(stream, seq=place + 1, subject=subject, next=True)
        except nats.js.errors.NotFoundError:
            break
        place = message.seq or place + 1
        if (message.headers or {}).get(MESSAGE_ID) == row.out_id:
            return True, place
    try:
        newest = await js.get_last_msg(stream, subject)
    except nats.js.errors.NotFoundError:
        return False, 0  # all of them are too old to be kept
    return False, newest.seq or 0
