// A worker in JavaScript, with nothing but `fetch`: it claims tasks over HTTP, keeps them by heartbeats, and reports.
//
//     afl dashboard user add node --role worker    # prints a token
//     afl dashboard & afl runner &                 # the server, and who evaluates runs
//     AFL_SERVER=http://127.0.0.1:8765 AFL_TOKEN=... node examples/node_worker/worker.mjs
//     afl submit examples/node_worker/poem.afl --wait
//
// It needs Node 18 or newer, the address of the server and a token of the role `worker`: no package, no database
// password. A task is held by (task, epoch) for as long as heartbeats renew its lease. If this process dies, another
// worker gets the task when the lease is over; a report that comes after that is refused with 409, and changes nothing.
// A handler may therefore be called again: give `idempotencyKey`, which stays the same, to systems that should act once.

import { hostname } from "node:os";

const SERVER = process.env.AFL_SERVER ?? "http://127.0.0.1:8765";
const WORKER = process.env.WORKER_NAME ?? `node-${hostname().replace(/[^A-Za-z0-9.-]/g, "-")}-${process.pid}`;
const LEASE_MS = Number(process.env.LEASE_MS ?? 30_000);
const CONCURRENCY = Number(process.env.CONCURRENCY ?? 5);

// Handlers by facet. They get the facet's parameters, and what they can know and say about the work.
const handlers = {
  async Translate({ text }, task) {
    task.log(`translating ${text.length} characters`);
    const words = text.split(" ");
    for (const [done] of words.entries()) {
      task.progress(done / words.length);
      await sleep(Number(process.env.WORD_MS ?? 0), task.signal);
    }
    return { text: words.reverse().join(" ") };
  },
  async Check({ text }) {
    if (!text) throw new RangeError("there is no text");
    return { length: text.length };
  },
};

const held = new Map(); // by task id
let stopping = false;

async function ask(path, body) {
  const response = await fetch(`${SERVER}/api/v1/work/${path}`, {
    method: "POST",
    headers: { "Content-Type": "application/json", Authorization: `Bearer ${process.env.AFL_TOKEN ?? ""}` },
    body: JSON.stringify({ worker: WORKER, ...body }),
  });
  const answer = await response.json();
  if (!response.ok) throw Object.assign(new Error(answer.error.message), { status: response.status });
  return answer;
}

// The same request again while the server does not answer; what it refuses is final.
async function insist(path, body) {
  for (let delay = 100; ; delay = Math.min(2 * delay, 5_000)) {
    try {
      return await ask(path, body);
    } catch (error) {
      if (error.status !== undefined && ![429, 503].includes(error.status)) throw error;
      console.error(`${path}: ${error.message}; trying again`);
      await sleep(delay);
    }
  }
}

function sleep(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, milliseconds);
    signal?.addEventListener("abort", () => (clearTimeout(timer), reject(signal.reason)));
  });
}

async function work(claimed) {
  const { task: id, epoch, facet, inputs } = claimed;
  const controller = new AbortController();
  const logs = [];
  let lines = 0;
  const note = (line) => logs.push({ id: `${epoch}-${++lines}`, time: Date.now(), ...line });
  const task = {
    idempotencyKey: claimed.idempotency_key,
    attempt: claimed.attempt,
    signal: controller.signal, // aborted when the task is no longer ours
    log: (message, level = "info") => note({ message, level }),
    progress: (progress, message = "") => note({ message, progress }),
  };
  held.set(id, { epoch, logs, controller });
  try {
    let report;
    try {
      const handler = handlers[facet] ?? handlers[facet.split(".").pop()];
      report = ["complete", { result: await handler(inputs, task) }];
    } catch (raised) {
      const error = raised instanceof Error ? raised : new Error(String(raised));
      const text = (value) => value.replaceAll("\0", "\uFFFD"); // the server refuses NUL
      report = ["fail", { message: text(error.message), error_type: error.name, traceback: text(error.stack ?? "") }];
    }
    if (controller.signal.aborted) throw controller.signal.reason;
    await insist(`${id}/${report[0]}`, { epoch, logs: logs.splice(0), ...report[1] });
    console.log(`${facet} ${id}: ${report[0]}`);
  } catch (error) {
    console.error(`${facet} ${id}: ${error.message}`); // 409: somebody else has it now, and that one's result counts
  } finally {
    held.delete(id);
  }
}

async function keep() {
  for (;;) {
    await sleep(Math.min(2_000, LEASE_MS / 3));
    if (held.size === 0) continue;
    const tasks = [...held].map(([task, { epoch, logs }]) => ({ task, epoch, logs: logs.splice(0) }));
    try {
      const { lost } = await ask("heartbeat", { tasks, lease_ms: LEASE_MS });
      for (const { task, why } of lost) held.get(task)?.controller.abort(new Error(why));
    } catch (error) {
      for (const { task, logs } of tasks) held.get(task)?.logs.unshift(...logs);
      console.error(`heartbeat: ${error.message}; trying again`);
    }
  }
}

async function main() {
  keep();
  for (const signal of ["SIGINT", "SIGTERM"]) {
    process.once(signal, () => {
      stopping = true;
      ask("stop", {}).catch(() => {}); // which ends the long poll
    });
  }
  console.log(`${WORKER} works on ${Object.keys(handlers).join(", ")} at ${SERVER}`);
  while (!stopping) {
    const room = CONCURRENCY - held.size;
    if (room === 0) {
      await sleep(20);
      continue;
    }
    const body = { facets: Object.keys(handlers), limit: room, wait: 20, lease_ms: LEASE_MS, capacity: CONCURRENCY };
    const { tasks } = await insist("claim", body);
    for (const task of tasks) work(task);
  }
  while (held.size > 0) await sleep(20);
  await insist("stop", {});
  process.exit(0);
}

await main();
