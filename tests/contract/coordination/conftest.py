"""Every story of the coordinator is told in memory and on a real server."""

from __future__ import annotations

import pytest
from support.post_office import Office, tell


@pytest.fixture(params=["memory", "redis"])
def office(request: pytest.FixtureRequest) -> Office:
    url: str | None = request.getfixturevalue("redis_url") if request.param == "redis" else None
    return lambda story: tell(story, url)
