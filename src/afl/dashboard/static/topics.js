// One event stream for all that watch: browsers open only six connections to one server, and every stream holds one.
// Who watches is told `ready` (from now on it hears of every change), `change`, `lost` (the connection is gone, and is
// made again) and `leave` (the session is over).

const RETRY = 2000; // milliseconds until a stream that was refused is asked for again

export class Topics {
  #watchers = new Map(); // function that tells one -> its topics, and whether it was told that it is ready
  #current = null; // the stream that serves
  #next = null; // one for more topics; it replaces the other when it is ready, so no change falls between the two

  // No topics: it does not watch any more.
  watch(tell, topics) {
    if (topics.length) this.#watchers.set(tell, { topics, isReady: false });
    else this.#watchers.delete(tell);
    const wanted = this.#wanted();
    if (!wanted.length) this.#close();
    else if (covers(this.#next ?? this.#current, wanted)) this.#announce();
    else this.#open(wanted);
  }

  #wanted() {
    return [...new Set([...this.#watchers.values()].flatMap((each) => each.topics))];
  }

  #open(topics) {
    this.#next?.source.close();
    const query = topics.map((each) => `topic=${encodeURIComponent(each)}`).join("&");
    const source = new EventSource(`/events?${query}`);
    const made = (this.#next = { source, topics: new Set(topics), isReady: false });
    source.addEventListener("ready", () => this.#ready(made));
    source.addEventListener("change", (event) => this.#tell({ kind: "change", topic: JSON.parse(event.data).topic }));
    source.addEventListener("leave", () => this.#leave()); // it was ended on another page, or its time is over
    source.addEventListener("error", () => this.#lost(made));
  }

  #ready(made) {
    if (made === this.#next) {
      this.#current?.source.close();
      this.#current = made;
      this.#next = null;
    }
    made.isReady = true;
    this.#announce();
  }

  // Those who came, or changed what they watch, since the last time.
  #announce() {
    if (!this.#current?.isReady) return;
    for (const [tell, each] of this.#watchers) {
      if (each.isReady || !covers(this.#current, each.topics)) continue;
      each.isReady = true;
      tell({ kind: "ready" });
    }
  }

  #lost(made) {
    made.isReady = false;
    if (made === this.#current) for (const each of this.#watchers.values()) each.isReady = false;
    this.#tell({ kind: "lost" }, (each) => !each.isReady);
    if (made.source.readyState === EventSource.CLOSED) this.#refused(made); // otherwise it comes back by itself
  }

  // The session is over, for instance since the dashboard was restarted, or the store is away.
  async #refused(made) {
    const asking = new AbortController();
    try {
      const response = await fetch(made.source.url, { headers: { "X-Fragment": "1" }, signal: asking.signal });
      asking.abort(); // only the status matters
      if (response.status === 401) return this.#leave();
    } catch {
      // nobody is there to ask
    }
    setTimeout(() => (made === this.#next || made === this.#current) && this.#open(this.#wanted()), RETRY);
  }

  #leave() {
    this.#close();
    this.#tell({ kind: "leave" });
    this.#watchers.clear();
  }

  #tell(event, isMeant = () => true) {
    for (const [tell, each] of this.#watchers) if (isMeant(each)) tell(event);
  }

  #close() {
    this.#current?.source.close();
    this.#next?.source.close();
    this.#current = this.#next = null;
  }
}

function covers(stream, topics) {
  return stream !== null && topics.every((each) => stream.topics.has(each));
}
