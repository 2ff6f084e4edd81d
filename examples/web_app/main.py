"""The web application of `app.py`, served on a free port and driven over HTTP: submit, follow, release, result.

From the root of the repository:

    python examples/web_app/main.py

It needs `pip install "agentflow-afl[web]"`.

Look at: the order is sent twice and started once; its events arrive as server-sent events while it runs; a person
releases the amount; the result is awaited by a request that needs no thread.
"""

import json
import os
import socket
import tempfile
import threading
import urllib.request
from typing import Any

from afl.kernel.extras import require_extras

require_extras("web")

import uvicorn
from app import app


def ask(url: str, body: dict[str, Any] | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.load(response)


def drive(url: str) -> None:
    order = {"order": "1001", "amount": 49.9}
    print("started", ask(f"{url}/orders", order)["id"])
    print("started", ask(f"{url}/orders", order)["id"], "(the same run)")
    with urllib.request.urlopen(f"{url}/orders/1001/events", timeout=60) as events:
        for line in events:
            if line.startswith(b"data: "):
                event = json.loads(line.removeprefix(b"data: "))
                print(" ", " ".join(filter(None, (event["kind"], event["step"], event["message"]))))
                if event["kind"] == "step-waiting":
                    ask(f"{url}/orders/1001/release", {})
    print("result", json.dumps(ask(f"{url}/orders/1001/result")))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, socket.socket() as listener:
        os.environ["AFL_STORE"] = f"sqlite:///{folder}/orders.db"
        listener.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            while not server.started and thread.is_alive():
                thread.join(0.05)
            drive(f"http://127.0.0.1:{listener.getsockname()[1]}")
        finally:
            server.should_exit = True
            thread.join()


if __name__ == "__main__":
    main()
