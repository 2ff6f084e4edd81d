"""kill -9 of consumers under load: everything is worked on at least once, nothing is acknowledged twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from random import Random

from message_eater import EATER, RETRIES
from support.command_line import environment
from support.eventually import PATIENCE_SECONDS
from support.post_office import ANN, Post, letter
from support.warm_processes import WarmPopen

MESSAGES, EATERS, KILLS = 600, 3, 12
POISON, BAD = "letter-poison", "letter-bad"


class Eaters:
    """Processes that eat; one that died is replaced."""

    def __init__(self, post: Post, url: str, folder: Path) -> None:
        self._arguments = [url, post.prefix]
        self._folder = folder
        self.running: list[WarmPopen] = []
        self.started = 0

    def fill_up(self) -> None:
        self.running = [each for each in self.running if each.poll() is None]
        while len(self.running) < EATERS:
            self.started += 1
            record = str(self._folder / f"{self.started}.txt")
            command = [str(Path(__file__).with_name("message_eater.py")), *self._arguments, record]
            with (self._folder / f"{self.started}.out").open("wb") as out:
                self.running.append(WarmPopen(command, stdout=out, stderr=out, env=environment()))

    def end(self) -> None:
        for each in self.running:
            each.kill()
            each.wait()

    def lines(self, word: str) -> list[str]:
        found = [line for record in self._folder.glob("*.txt") for line in record.read_text().splitlines()]
        return [line.partition(" ")[2] for line in found if line.startswith(f"{word} ")]


def test_consumers_may_be_killed_at_any_moment(tmp_path: Path, redis_url: str) -> None:
    random = Random(4)

    async def story() -> None:
        post = Post(redis_url)
        coordinator = post.coordinator(retry_attempts=RETRIES)
        eaters = Eaters(post, redis_url, tmp_path)
        sent = [f"letter-{number}" for number in range(MESSAGES)]
        try:
            for number in range(MESSAGES):
                await coordinator.send_message(ANN, EATER, letter(number))
            await coordinator.send_message(ANN, EATER, letter("poison", payload={"poison": True}))
            await coordinator.send_message(ANN, EATER, letter("bad", payload={"bad": True}))
            kills = hit = 0
            async with asyncio.timeout(PATIENCE_SECONDS * 2):
                while (found := await coordinator.statistics(EATER)).total:
                    eaters.fill_up()
                    if kills < KILLS and found.in_flight:
                        kills += 1
                        hit += found.in_flight
                        random.choice(eaters.running).kill()
                        seen = len(eaters.lines("acked"))
                        while (
                            len(eaters.lines("acked")) == seen and (await coordinator.statistics(EATER)).ready
                        ):
                            eaters.fill_up()
                            await asyncio.sleep(0.005)
                    await asyncio.sleep(0.01)
        finally:
            eaters.end()
        assert kills >= 3 and hit > 0, "no kill hit anything"
        acked = Counter(eaters.lines("acked"))
        assert set(eaters.lines("eaten")) == set(sent), "each at least once"
        assert max(acked.values()) == 1, "acknowledged twice"
        dead = {each.message_id: each for each in await coordinator.dead_letters.list(EATER)}
        assert dead[POISON].reason == "reservation expired"
        assert dead[BAD].reason == "transient failure: ValueError: it is bad"
        assert set(dead) == {POISON, BAD}, "poison took others along"
        assert (await coordinator.statistics(EATER)).total == 0
        await post.close()

    asyncio.run(story())
