"""A consumer as a process of its own: `message_eater.py URL PREFIX RECORD`. Some messages kill it.

Before a message is answered its id is written to the record; after it was acknowledged, a line says so.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from redis.asyncio import Redis

from afl.coordination import AgentId, Consumer, ReceivedMessage, RedisMessageCoordinator

EATER = AgentId(type="eater")
VISIBLE = 0.5
RETRIES = 4


async def main(url: str, prefix: str, record: Path) -> None:
    redis = Redis.from_url(url)
    coordinator = RedisMessageCoordinator(redis, prefix, backoff_base=0.01, retry_attempts=RETRIES)
    with record.open("a", buffering=1) as lines:
        really = coordinator.ack

        async def ack(agent_id: AgentId, token: str) -> bool:
            done = await really(agent_id, token)
            if done:
                lines.write(f"acked {known[token]}\n")
            return done

        known: dict[str, str] = {}
        coordinator.ack = ack  # type: ignore[method-assign]

        async def eat(received: ReceivedMessage) -> None:
            message = received.message
            known[received.token] = message.message_id
            if message.payload.get("poison"):
                os.kill(os.getpid(), signal.SIGKILL)
            if message.payload.get("bad"):
                raise ValueError("it is bad")
            await asyncio.sleep(0.002)
            lines.write(f"eaten {message.message_id}\n")

        lines.write("begun\n")
        await Consumer(coordinator, EATER, eat, concurrency=8, visibility_timeout=VISIBLE).run()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], Path(sys.argv[3])))
