"""A pretend Claude, so that the example needs no key: it reads requests as the real one does, and thinks less."""

import json
from typing import Any

from afl.devstack.messages_api import Said, uses

QUESTIONS = {
    "How long do whales grow?": "long",
    "Do whales sing?": "song",
    "How far do whales travel?": "travel",
}


def answer(request: dict[str, Any]) -> Said:
    """What it says to a request: by the tool it is to answer with, the last one."""
    tool = request["tools"][-1]["name"]
    said = [block for message in request["messages"] for block in _blocks(message["content"])]
    spent = {"input_tokens": len(json.dumps(request)) // 4, "output_tokens": 60}
    if tool == "Plan":
        return uses("Plan", {"questions": list(QUESTIONS)}, usage=spent, text="Three questions will do. ")
    if tool == "Find":
        return _find(said, spent)
    if "does not do" not in str(said[-1]):  # at first it forgets that a list was asked for
        return uses("Write", {"report": "Whales are long."}, usage=spent)
    findings = json.loads(said[0]["text"].partition("\n")[2])
    return uses(
        "Write", {"report": [f"{each['answer']} ({each['source']})" for each in findings]}, usage=spent
    )


def _blocks(content: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _find(said: list[dict[str, Any]], spent: dict[str, int]) -> Said:
    question = json.loads(said[0]["text"].partition("Parameters: ")[2].splitlines()[0])["question"]
    if said[-1]["type"] != "tool_result":
        return uses("search", {"words": QUESTIONS[question], "most": 1}, usage=spent)
    (page,) = json.loads(_blocks(said[-1]["content"])[0]["text"])
    finding = {
        "question": question,
        "answer": page["page"].split(". ")[0].rstrip(".") + ".",
        "source": page["book"],
    }
    return uses("Find", {"finding": finding}, usage=spent)
