"""The agent of hello.afl: one function. Its parameters are the facet's, what it returns are the facet's returns."""

from afl import handler


@handler("hello.Greet")
def greet(name: str) -> dict[str, str]:
    return {"message": f"Hello, {name}!"}
