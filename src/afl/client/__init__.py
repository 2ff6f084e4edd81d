"""The client: start workflows, wait for them, watch and steer them, from any Python program.

    async with afl.connect("postgresql://...") as flow:
        handle = await flow.start("report.afl", "reports.Daily", day="2026-11-16")
        result = await handle.result(timeout=60)

`with` instead of `async with` gives a client whose methods are not coroutines. `connection` opens one; `async_client`
and `async_handle` have its methods, from which `client` and `handle` are generated. `calls` and `async_calls` call
operations and wait, by a `store_client` or an `http_client`, which the command line, the dashboard and MCP use as well.
Nothing is imported here: a command needs only some of it.
"""
