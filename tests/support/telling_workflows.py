"""Small workflows that tell much: for each construct one whose result is plain to see, with work for agents in it."""

from __future__ import annotations

import re
from typing import Any

from support.case import Case

_LIBRARY = """
    schema Pair { left: Long, right: Long }
    event facet Echo(p: Long) => (u: Long)
    event facet Many(p: Long) => (u: [Long])
    event facet Refuse(p: Long) => (u: Long)
    event facet Risky(p: Long) => (u: Long)
    event facet Named(p: Long, tag: String = "none") => (u: Long, v: String)
    event facet Told(p: Long) => (u: Long) with Signal("told-" ++ $.p)
    event facet Heard(p: Long) => (v: String) with Signal("heard")
    event facet Late(p: Long) => (u: Long) with Signal("late") with Timeout(ms = 1)
    event facet Never(p: Long) => (u: Long) with Signal("never")
    facet Extra(n: Long)
    facet More(m: Long)
    facet Plain(m: Long, n: Long = 10) => (s: Long)
    facet Sum(m: Long, n: Long = 10) => (s: Long) andThen {
        a = lib.Echo(p = $.m)
        b = lib.Echo(p = $.n)
        yield lib.Sum(s = a.u + b.u)
    }
    facet Careful(m: Long) => (s: Long, why: String = "fine") andThen {
        a = lib.Refuse(p = $.m)
        b = lib.Echo(p = $.m)
        yield lib.Careful(s = a.u + b.u)
    } catch {
        c = lib.Echo(p = 0 - $.m)
        yield lib.Careful(s = c.u, why = $.error_type ++ ":" ++ $.error)
    }
    facet Mixed(m: Long) => (s: Long) with lib.Echo(p = $.m + 1) as first with lib.Sum(m = $.m) as second andThen {
        yield lib.Mixed(s = $.first.u * 100 + $.second.s)
    }
    facet Spoiled(m: Long) => (s: Long) with lib.Refuse(p = $.m) as bad andThen { yield lib.Spoiled(s = $.m) }
    facet Sifted(m: Long) => (kept: [Long], lost: [sys.Failure])
        andThen foreach r in [$.m, $.m + 1, $.m + 2] limit 2 collect lost {
            a = lib.Risky(p = r)
            yield lib.Sifted(kept = [r])
        }
    workflow Count(m: Long) => (s: Long, seen: [Long]) andThen when {
        case $.m > 0 => {
            rest = lib.Count(m = $.m - 1)
            me = lib.Echo(p = $.m)
            yield lib.Count(s = rest.s + me.u, seen = rest.seen ++ [me.u])
        }
        case _ => { yield lib.Count(s = 0, seen = []) }
    }
    workflow Asks(m: Long) => (s: Long) andThen {
        a = lib.Told(p = $.m)
        b = lib.Count(m = 1) with Run() with After(a)
        yield lib.Asks(s = a.u + b.s)
    }
    workflow Fails(m: Long) => (s: Long) andThen {
        a = lib.Echo(p = $.m)
        b = lib.Refuse(p = a.u) catch when {
            case a.u > 1 => { yield lib.Refuse(u = 5) }
            case _ => { sys.assert(false) }
        }
        yield lib.Fails(s = b.u)
    }
    workflow Hangs(m: Long) => (s: Long) andThen { a = lib.Never(p = $.m) yield lib.Hangs(s = a.u) }
    facet Climb(m: Long) => (s: Long = 0, t: String = ":", seen: [Long] = []) andThen repeat last {
        a = lib.Echo(p = last.s + 1)
        b = lib.Plain(m = a.u) andThen foreach r in [1, 2] { c = lib.Echo(p = r) yield lib.Climb(seen = [c.u * a.u]) }
        yield lib.Climb(s = a.u, t = last.t ++ a.u)
    } until last.s >= $.m
    implicit usual = lib.Plain(m = 7)
"""
_BEGINS = re.compile(r"^    (?=\S+ )(?=schema|event|facet|workflow|implicit)", re.MULTILINE)
_DECLARED = re.compile(r"(?:schema|facet|workflow) (\w+)|implicit \w+ = lib\.(\w+)")
_MAIN = "W(list: [Long] = [3, 1, 2], n: Long = 5) => (x: Long, t: String, all: [Long], lost: [sys.Failure])"


def _used(body: str) -> str:
    """The declarations of the library that a body refers to: every life of a test prepares the whole program."""
    parts = _BEGINS.split(_LIBRARY)[1:]
    names, seen = set(re.findall(r"lib\.(\w+)", body)), set[str]()
    while names - seen:
        seen |= names
        used = [part for part in parts if _declares(part) in seen]
        names = {name for part in used for name in re.findall(r"lib\.(\w+)", part)}
    return "    ".join(["", *(part for part in parts if _declares(part) in seen)])


def _declares(part: str) -> str:
    found = _DECLARED.search(part)
    assert found is not None
    return found[1] or found[2]


def telling(body: str, **inputs: Any) -> Case:
    """A case whose workflow has this body; it has a list and a number `n`."""
    library = _used(body)
    return Case(
        f"namespace lib {{\n{library}}}\nnamespace main {{\n    workflow {_MAIN}\n{body}\n}}\n", inputs
    )


TELLING: dict[str, Case] = {
    "chain": telling(
        "andThen { a = lib.Echo(p = $.n) b = lib.Echo(p = a.u + 1) c = lib.Echo(p = b.u * a.u) yield main.W(x = c.u) }"
    ),
    "foreach": telling(
        """andThen foreach r in $.list {
            a = lib.Echo(p = r)
            b = lib.Sum(m = a.u)
            yield main.W(all = [b.s, r], x = b.s)
        }""",
        list=[1, 2, 3],
    ),
    "timers and published values": telling(
        """andThen foreach r in $.list {
            a = lib.Echo(p = r)
            p = sys.Publish(name = "last", value = a.u)
            s = sys.Sleep(ms = a.u % 2) andThen {
                b = lib.Echo(p = $.ms + r)
                u = sys.Until("2020-01-01T00:00:00Z")
                yield main.W(all = [b.u])
            }
            c = lib.Echo(p = r) with After(s)
            yield main.W(x = c.u)
        }"""
    ),
    "foreach over a map, in a foreach": telling(
        """andThen foreach r in $.list {
            a = lib.Plain(m = r) andThen foreach e in #{one: r, two: r * 10} {
                b = lib.Echo(p = e.value)
                yield lib.Plain(s = b.u)
                yield main.W(all = [b.u + r], t = e.key)
            }
            yield main.W(x = a.s)
        }"""
    ),
    "foreach over an answer": telling(
        """andThen {
            a = lib.Sum(m = 1) andThen foreach r in [1, 2, 3] { b = lib.Echo(p = r) yield lib.Sum(s = b.u) }
            c = lib.Echo(p = a.s)
            yield main.W(x = c.u)
        }
        andThen foreach r in [] { yield main.W(t = "never") }"""
    ),
    "repeat": telling(
        """andThen repeat last {
            a = lib.Climb(m = $.n)
            b = lib.Climb(m = 1) andThen repeat state {
                c = lib.Echo(p = state.s + a.s) catch { yield lib.Echo(u = 0) }
                yield lib.Climb(s = c.u, t = last.t ++ state.t)
            } until state.s > 5
            yield main.W(x = a.s, t = a.t ++ b.s ++ b.t, all = a.seen)
        } until $.last.x >= $.n""",
        n=3,
    ),
    "repeat, and what it leaves": telling(
        """andThen {
            z = lib.Echo(p = 17)
            a = lib.Climb(m = 0) andThen repeat last limit z.u {
                b = lib.Echo(p = last.s + 1)
                yield lib.Climb(s = b.u, seen = last.seen ++ [b.u])
            } until last.s == z.u - 4
            yield main.W(x = a.s, all = a.seen)
        } andThen repeat last { a = lib.Echo(p = 1) yield main.W(t = last.t ++ "x") } until (last.t == "xxx")"""
    ),
    "when": telling(
        """andThen when {
            case $.n > 3 => { a = lib.Echo(p = $.n) yield main.W(all = [a.u]) }
            case $.n > 4 => { a = lib.Echo(p = $.n * 2) yield main.W(all = [a.u]) }
            case $.n > 9 => { a = lib.Echo(p = 0) yield main.W(all = [a.u]) }
            case _ => { yield main.W(all = [0]) }
        }
        andThen when {
            case $.n > 9 => { yield main.W(t = "big") }
            case _ => { b = lib.Echo(p = 1) yield main.W(t = "small") }
        }"""
    ),
    "catch": telling(
        """andThen foreach r in $.list {
            a = lib.Careful(m = r)
            b = lib.Refuse(p = r) catch { c = lib.Echo(p = a.s) yield lib.Refuse(u = c.u) }
            d = lib.Sum(m = r) catch { yield lib.Sum(s = 0) }
            yield main.W(all = [a.s, b.u, d.s], t = a.why)
        }""",
        list=[3, 1],
    ),
    "catch when, in an inline body": telling(
        """andThen {
            z = lib.Echo(p = $.n)
            a = lib.Plain(m = z.u) andThen { b = lib.Refuse(p = z.u) yield main.W(x = b.u) } catch when {
                case a.error contains "boom" => { yield lib.Plain(s = z.u) yield main.W(t = a.error_type) }
                case _ => { yield lib.Plain(s = 0) }
            }
            yield main.W(all = [a.s])
        }"""
    ),
    "mixins": telling(
        """andThen {
            a = lib.Mixed(m = 2)
            b = lib.Mixed(m = a.s)
            c = lib.Spoiled(m = 1) catch { yield lib.Spoiled(s = 9) }
            d = lib.Plain(m = 1) with lib.Extra(n = 6) with lib.More(m = 8) as more andThen {
                yield lib.Plain(s = $.n + $.more.m)
            }
            yield main.W(x = b.s, all = [a.s, c.s, d.s])
        }"""
    ),
    "implicits, defaults and schemas": telling(
        """andThen {
            a = lib.Plain() andThen { b = lib.Echo(p = $.m + $.n) yield lib.Plain(s = b.u) }
            p = lib.Pair(left = a.s, right = a.m)
            e = lib.Named(p = p.right)
            yield main.W(x = p.left, t = e.v, all = [p.right, e.p])
        }"""
    ),
    "several blocks": telling(
        """andThen { a = lib.Echo(p = 1) yield main.W(all = [a.u], x = 1) }
        andThen { a = lib.Echo(p = 2) b = lib.Echo(p = a.u) yield main.W(all = [b.u], x = 2) }
        andThen { yield main.W(all = [3], x = 3) }"""
    ),
    "a workflow as a step, calling itself": telling(
        "andThen { a = lib.Count(m = 3) b = lib.Count(m = a.s - 5) yield main.W(x = a.s, all = a.seen ++ b.seen) }"
    ),
    "inline bodies that wait for steps around them": telling(
        """andThen {
            slow = lib.Sum(m = $.n)
            a = lib.Plain(m = 1) andThen {
                b = lib.Plain(m = slow.s) andThen when {
                    case slow.s > 1 => { yield lib.Plain(s = slow.s + a.m) yield main.W(x = b.m) }
                    case _ => { }
                }
                yield lib.Plain(s = b.s)
            }
            yield main.W(all = [a.s])
        }"""
    ),
    "yields past a closed foreach": telling(
        """andThen {
            a = lib.Echo(p = $.n) andThen foreach r in [3, 1, 2] { b = lib.Echo(p = r) yield main.W(all = [b.u + a.u]) }
            c = lib.Sum(m = a.u)
            d = lib.Echo(p = c.s)
            yield main.W(x = d.u)
        }"""
    ),
    "a failure that others outlive": telling(
        """andThen {
            a = lib.Echo(p = 1)
            bad = lib.Refuse(p = a.u)
            skipped = lib.Echo(p = bad.u)
            b = lib.Echo(p = a.u) andThen { c = lib.Echo(p = bad.u) }
            d = lib.Sum(m = a.u)
            yield main.W(x = d.s)
        }"""
    ),
    "foreach, some at a time": telling(
        """andThen foreach r in $.list limit 2 {
            a = lib.Echo(p = r)
            b = lib.Echo(p = a.u + $.n)
            yield main.W(all = [b.u], x = b.u)
        }""",
        list=[1, 2, 3, 4, 5],
    ),
    "failures in a foreach, collected": telling(
        """andThen foreach r in $.list limit $.n - 3 collect lost {
            a = lib.Risky(p = r)
            b = lib.Echo(p = r)
            yield main.W(all = [b.u])
        }""",
        list=[0, 1, 2, 3, 4, 5, 6],
    ),
    "collected in a foreach over a map, in a foreach": telling(
        """andThen foreach r in $.list collect lost {
            a = lib.Sifted(m = r)
            b = lib.Sifted(m = r * 10) andThen foreach e in #{one: r, two: 0 - r} limit 1 collect lost {
                sys.assert(e.value > 0)
                c = lib.Echo(p = e.value)
                yield lib.Sifted(kept = [c.u])
                yield main.W(all = [c.u])
            }
            sys.assert(b.lost[0].index == 1)
            yield main.W(all = a.kept ++ b.kept, x = r, t = b.lost[0].step)
        }""",
        list=[4, 1, 6],
    ),
    "collected beside a block that fails, and is caught": telling(
        """andThen foreach r in $.list collect lost {
            a = lib.Refuse(p = r) catch when {
                case r > 1 => { yield lib.Refuse(u = r) }
                case _ => { sys.assert(false) }
            }
            yield main.W(all = [a.u])
        } andThen {
            a = lib.Refuse(p = 1)
        } catch {
            yield main.W(t = $.error_type)
        }"""
    ),
    "failures in a repeat": telling(
        """andThen {
            a = lib.Plain(m = 1) andThen repeat last limit 2 {
                b = lib.Echo(p = 1) yield lib.Plain(s = 1)
            } until last.s > 1 catch { yield lib.Plain(s = 0) }
        } andThen repeat last { a = lib.Refuse(p = 1) b = lib.Echo(p = 2) yield main.W(x = b.u) } until true"""
    ),
    "failures in a foreach": telling(
        "andThen foreach r in $.list { a = lib.Risky(p = r) b = lib.Echo(p = r) yield main.W(all = [b.u]) }",
        list=[0, 1, 2, 3, 4, 5, 6],
    ),
    "signals": telling(
        """andThen foreach r in $.list {
            a = lib.Told(p = r)
            b = lib.Told(p = r) with Signal("again-" ++ a.u)
            yield main.W(all = [b.p])
        } andThen {
            a = lib.Told(p = 1)
            b = lib.Heard(p = 1) with Signal("told-1")
            c = lib.Heard(p = a.u) with After(b) andThen { yield main.W(t = "heard") }
            yield main.W(x = c.p - a.u)
        }""",
        list=[1, 2],
    ),
    "signals that do not come in time": telling(
        """andThen foreach r in [1, 2] collect lost {
            a = lib.Late(p = r) with Retry(2, backoff = 0) catch { yield lib.Late(u = 7) }
            b = lib.Told(p = a.u)
            c = lib.Late(p = r) with Signal("later-" ++ b.u)
            yield main.W(all = [c.u])
        } andThen {
            a = lib.Late(p = 1) catch when {
                case a.error_type == "Timeout" => { yield main.W(t = a.error_type) }
                case _ => { }
            }
        }"""
    ),
    "child runs": telling(
        """andThen foreach r in $.list limit 2 {
            a = lib.Count(m = r) with Run(id = "count-" ++ r, taskList = "counts") andThen {
                b = lib.Echo(p = $.s)
                yield main.W(all = [b.u])
            }
            yield main.W(x = a.s)
        } andThen {
            a = lib.Asks(m = $.n) with Run(id = "asks") with Timeout(hours = 1)
            b = lib.Asks(m = $.n) with Run(id = "asks") with After(a) catch { yield main.W(t = b.error_type) }
        }""",
        list=[2, 1],
    ),
    "child runs that fail": telling(
        """andThen {
            a = lib.Fails(m = 1) with Run() catch when {
                case a.error_type == "AssertionError" => { b = lib.Echo(p = 3) yield lib.Fails(s = b.u) }
                case _ => { sys.assert(false) }
            }
            c = lib.Fails(m = a.s) with Run()
            yield main.W(all = [a.s, c.s])
        } andThen { d = lib.Fails(m = 0) with Run() }"""
    ),
    "child runs that nobody waits for": telling(
        """andThen foreach r in $.list {
            a = lib.Asks(m = r) with Run(id = "asks-" ++ r, onParentClose = "detach", wait = false)
            b = lib.Asks(m = r) with Run(wait = false)
            c = lib.Fails(m = 0) with Run(onParentClose = "detach", wait = false)
            d = lib.Echo(p = a.m) with After(b)
            yield main.W(all = [d.u])
        }""",
        list=[2],
    ),
    "child runs that take too long": telling(
        """andThen {
            a = lib.Hangs(m = 1) with Run(id = "hangs") with Timeout(ms = 1) catch { yield main.W(t = a.error_type) }
            b = lib.Hangs(m = 2) with Run(onParentClose = "detach") with Timeout(ms = 1) catch {
                c = lib.Echo(p = 2)
                yield main.W(x = c.u)
            }
        }"""
    ),
    "limits": telling(
        """andThen foreach r in $.list limit 2 {
            a = lib.Echo(p = r) with Rate("api", perMinute = 60000)
            b = lib.Echo(p = a.u) with Concurrency("one-" ++ $.n, limit = 1) with Priority(r)
            yield main.W(all = [b.u])
        }"""
    ),
    "expressions": telling(
        """andThen {
            a = lib.Echo(p = sum([r * 2 for r in $.list if r not in [2]]) + ($.n > 4 ? max($.list) : 1 % 0))
            b = lib.Named(p = len(range(a.u, 20, 3)), tag = upper(join(reverse(sort($.list)), "-")) ++ a.u)
            yield main.W(
                x = first([e.value for e in merge(#{one: 1}, #{one: a.u}) if e.key startsWith "o"], 0),
                t = format("{} {0} {1}", replace(b.tag, "-", "+"), coalesce(null, addTime("2026-02-28", 1, "days"))),
                all = distinct(flatten([$.list, [b.p, floor(0 - 7 / 2), floor(number(slice("-12.5", 1)))]]))
            )
        }
        andThen foreach r in [1, 0] collect lost { a = lib.Echo(p = r) b = lib.Echo(p = floor(1 / a.u)) }"""
    ),
}
