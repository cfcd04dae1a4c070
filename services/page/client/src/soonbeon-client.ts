/**
 * Waits in a soonbeon line for whoever sits in front of this browser.
 *
 *     enter once ──▶ poll, when told ──▶ stream (the next hundred) ──▶ admitted, or over
 *                        ▲  └── fails, or ends ◀──┘
 *
 * What it promises: there is one chain of requests at any time, in all tabs of one browser together; the server's
 * retryAfterMs is obeyed, and a hidden tab asks less often; an entry is repeated with its Idempotency-Key until it is
 * answered, so it is one place; the newest receipt is kept, so a tab that comes back goes on with it. Entering again,
 * which may move its holder back, happens only when it is asked for.
 *
 * When the network or the server is away it tries again, less and less often, and says so beside what was known last.
 */

/** What becomes of the one who waits. closed, over and refused are final: nothing more is asked. */
export type State = "entering" | "waiting" | "admitted" | "over" | "closed" | "refused";

/** What is known. Fields that do not apply are left out; a number that is left out is not known. */
export interface Update {
  state: State;
  /** 1 is next. Exact, or an upper bound where precision says "approximate". */
  position?: number;
  ahead?: number;
  behind?: number;
  total?: number;
  /** The number that was entered with. */
  ticket?: number;
  /** The number that was drawn, where lots decide. */
  number?: number;
  nowServing?: number;
  etaSeconds?: number;
  opensAt?: string;
  /** From the moment of `at`, so that a wrong clock does not matter. */
  opensInSeconds?: number;
  /** "draw": lots are still to be drawn, so nobody has a position. */
  order?: string;
  commitment?: string;
  paused?: boolean;
  /** What the operators say. */
  message?: string;
  precision?: "exact" | "approximate";
  /** admitted: what opens the gate. */
  token?: string;
  expiresAt?: string;
  /** admitted: what was left of it at `at`, by the server's clock, within a second. */
  expiresInMs?: number;
  /** admitted: where the operators send people to. */
  admitTo?: string;
  /** over: expired, left, released, or why the line was ended. closed: why nobody is taken in. */
  reason?: string;
  /** refused: the problem's code and its detail, in English. */
  code?: string;
  detail?: string;
  /** The position before this client entered again, as it was told to. */
  movedFrom?: number;
  /** The answer is not fresh: this device has no network, or the server does not answer. It is tried again. */
  trouble?: "offline" | "unavailable";
  /** When it was answered, Date.now(). */
  at: number;
  /** Another tab of this browser asks; this one listens. */
  elsewhere?: boolean;
}

export interface Options {
  queue: string;
  /** Called with each answer, and when trouble begins or ends. */
  onUpdate(update: Update): void;
  /** Where the waiting room is, "https://wait.example"; this page's own origin where it is left out. */
  base?: string;
  /** What the site signed for this person, where entering needs it. Otherwise the receipt is all there is. */
  credential?: string;
  /** The browser holds a receipt as a cookie (one that entered without scripts): ask before entering. */
  resume?: boolean;
  /** The person asked for a reload: once it is known that they wait, enter again. They move back, as the rule says. */
  again?: boolean;
  /** Where the receipt is kept. Default: localStorage, or memory where that is refused. */
  storage?: Pick<Storage, "getItem" | "setItem">;
}

export interface Place {
  /** Enters anew after over or closed, and again while waiting, which moves back where the rule is back. */
  enter(): void;
  /** Gives the place up. */
  leave(): Promise<void>;
  /** Asks nothing more. The place stays. */
  stop(): void;
}

interface Kept {
  key?: string;
  receipt?: string;
}

interface Reply {
  status: number;
  body: Record<string, unknown>;
  /** When it makes sense to ask again, milliseconds; 0: not said. */
  after: number;
}

/** From this position on the server pushes. */
const NEAR = 100;
/** A hidden tab asks a quarter as often, but not less often than this, unless it is told to. */
const HIDDEN_MS = 60_000;
const TIMEOUT_MS = 20_000;
/** A stream begins with an event, and has a heartbeat within 15 s. */
const FIRST_EVENT_MS = 8_000;
const SILENT_MS = 20_000;
const LONGEST_BACKOFF_MS = 30_000;
const LONGEST_STREAM_PAUSE_MS = 120_000;
/** Whoever comes back to a tab need not wait for a request that has been silent for longer: the network is another one. */
const STALE_MS = 15_000;
/** By then what one tab keeps is seen by the others. */
const SEEN_MS = 1_500;
/** A stream that says nothing new is as good as an answer this often. */
const RENEW_MS = 3_000;

/** Takes a place, or goes on with the one that is kept, and stays until it is stopped. */
export function wait(options: Options): Place {
  const { queue, base = "" } = options;
  const name = "soonbeon:" + queue;
  const page = globalThis.document as Document | undefined;
  const agent = globalThis.navigator as Navigator | undefined;
  const locks = agent?.locks as LockManager | undefined;
  const channel = typeof BroadcastChannel === "function" ? new BroadcastChannel(name) : undefined;
  const storage = options.storage ?? usableStorage();

  let last: Update = { state: "entering", at: Date.now() };
  let kept: Kept = {};
  let resume = options.resume;
  let again: boolean | "keyed" = options.again ?? false;
  let movedFrom: number | undefined;
  let forgiven = false; // a cookie that counts for nothing was given up once
  let denied = false; // so was a receipt

  let stopped = false;
  let leading = false;
  let claim = 0; // of the lock; an older one that ends is no matter
  let release: (() => void) | undefined;
  let request: AbortController | undefined; // the one that is under way
  let timer: ReturnType<typeof setTimeout> | undefined;
  let due = 0; // when to ask, Date.now(); Infinity: not again
  let interval = 0; // that due came from
  let every = 0; // what the latest answer said
  let failures = 0;
  let alive = 0; // when the request that is under way began, or said something last, Date.now()

  let lastEvent = "";
  let streamFrom = 0; // not before, Date.now()
  let streamPause = 1000;
  let streamFailures = 0;
  let lost = false; // and not polled since

  // ---- what is kept

  function load(): void {
    try {
      kept = (JSON.parse(storage.getItem(name)!) as Kept | null) ?? kept; // nothing is there where nothing could be kept
    } catch {
      kept = {};
    }
  }

  function keep(next: Kept): void {
    kept = next;
    try {
      storage.setItem(name, JSON.stringify(next));
    } catch {
      // full, or refused: this tab still knows
    }
  }

  // ---- who is told

  function tell(update: Update): void {
    last = update;
    channel?.postMessage([update, due, interval]);
    options.onUpdate(update);
  }

  function trouble(): void {
    tell({ ...last, trouble: agent?.onLine === false ? "offline" : "unavailable" });
  }

  // ---- when the next request goes out: the only place that sets the timer

  const final = (): boolean => last.state === "closed" || last.state === "over" || last.state === "refused";

  const hidden = (): boolean => page?.visibilityState === "hidden";

  function after(ms: number): void {
    interval = ms;
    due = Date.now() + ms;
    arm();
  }

  function arm(): void {
    clearTimeout(timer);
    if (!leading || stopped || request || due === Infinity) return;
    const slower = hidden() ? Math.max(Math.min(interval * 4, HIDDEN_MS) - interval, 0) : 0;
    timer = setTimeout(step, Math.min(Math.max(due + slower - Date.now(), 0), 2 ** 31 - 1));
  }

  async function step(): Promise<void> {
    if (request || !leading || stopped) return;
    const mine = (request = new AbortController());
    due = Infinity; // whatever follows says when
    alive = Date.now();
    try {
      if (!kept.receipt && !resume) await enter(mine);
      else if (near() && !lost) await stream(mine);
      else await ask(mine);
    } catch {
      if (request === mine && !stopped) failed(0);
    }
    if (request === mine) {
      request = undefined;
      arm();
    }
  }

  /** Something is wrong that may pass. after: what the server says, in milliseconds; 0: it says nothing. */
  function failed(told: number): void {
    const backoff = Math.min(1000 * 2 ** failures++, LONGEST_BACKOFF_MS) * (0.5 + Math.random());
    after(told || backoff);
    trouble();
  }

  function end(update: Omit<Update, "at">): void {
    due = Infinity;
    tell({ ...update, at: Date.now() });
  }

  /** Gives up what is under way. */
  function halt(): void {
    clearTimeout(timer);
    const was = request;
    request = undefined;
    was?.abort();
  }

  // ---- requests

  function headers(credential: string | undefined): Record<string, string> {
    return credential ? { Authorization: "Bearer " + credential } : {};
  }

  async function call(mine: AbortController, path: string, init: RequestInit): Promise<Reply> {
    const limit = setTimeout(() => mine.abort(), TIMEOUT_MS);
    try {
      const res = await fetch(base + path, { ...init, signal: mine.signal, cache: "no-store" });
      return await read(res);
    } finally {
      clearTimeout(limit);
    }
  }

  function post(mine: AbortController, path: string, more: Record<string, string>): Promise<Reply> {
    return call(mine, path, {
      method: "POST",
      headers: { "Content-Type": "application/json", ...more },
      body: JSON.stringify({ queue }),
    });
  }

  async function enter(mine: AbortController): Promise<void> {
    if (!kept.key) keep({ ...kept, key: randomKey() });
    const credential = kept.receipt ?? options.credential;
    const r = await post(mine, "/queue/enter", { "Idempotency-Key": kept.key!, ...headers(credential) });
    if (request !== mine) return;
    const { body } = r;
    if (r.status === 202) {
      failures = 0;
      again = false;
      const { receipt, status, queue, visitor, retryAfterMs, ...told } = body;
      keep({ key: kept.key!, receipt: receipt as string });
      after(r.after);
      tell({ ...told, state: "waiting", at: Date.now(), ...moved() });
    } else if (r.status === 200) {
      if (kept.receipt) after(0);
      else end({ state: "admitted", expiresAt: body.expiresAt as string });
    } else if (r.status === 410) {
      if (kept.receipt) goOn();
      else end({ state: "closed", ...text(body, "reason"), ...text(body, "message") });
    } else if (r.status === 401 && kept.receipt) deny(r);
    else if (r.status === 401 && !credential && !forgiven) {
      forgiven = true;
      await post(mine, "/queue/leave", {}); // makes the browser forget a cookie that counts for nothing
      if (request === mine) after(0);
    } else refused(r);
  }

  /**
   * A receipt that counts for nothing is of a queue that is no more, or signed by a key that is no more: a new place is taken. Where
   * the next one counts for nothing either, it is rather the server that does not know its keys, and entering would move its holder back
   * each time.
   */
  function deny(r: Reply): void {
    if (denied && failures < 6) return failed(r.after);
    denied = true;
    keep({});
    if (!resume) last = { state: "entering", at: Date.now() };
    after(0);
  }

  /** Who can't enter again keeps the place that there is. */
  function goOn(): void {
    again = false;
    movedFrom = undefined;
    after(0);
  }

  async function ask(mine: AbortController): Promise<void> {
    lost = false;
    const r = await call(mine, "/queue/position?queue=" + queue, { headers: headers(kept.receipt) });
    if (request !== mine) return;
    if (r.status === 200) answered(r.body, r.after, mine);
    else if (r.status === 401 && kept.receipt) deny(r);
    else if (r.status === 401) {
      resume = false;
      last = { state: "entering", at: Date.now() };
      after(0);
    } else refused(r);
    if (!again || r.status !== 200) return;
    // Who was let in or sent away has nothing to lose by a reload, and neither has who waits for a draw.
    if (last.state !== "waiting" || last.order === "draw") again = false;
    else {
      if (again === true) {
        again = "keyed"; // and a repetition has the same key
        movedFrom = last.position;
        keep({ ...kept, key: randomKey() });
      }
      await enter(mine);
    }
  }

  /** An answer to "where am I", asked for or pushed. */
  function answered(body: Record<string, unknown>, pause: number, mine: AbortController, pushed?: boolean): void {
    failures = 0;
    resume = false;
    const { receipt, retryAfterMs: _, ...told } = body;
    if (receipt) keep({ ...kept, receipt: receipt as string });
    const update = { ...told, at: Date.now(), ...moved() } as unknown as Update;
    if (update.state === "waiting") {
      every = pause || every;
      if (!pushed) after(nearBy(update) ? 0 : pause);
    } else {
      if (update.state === "admitted") {
        update.expiresInMs = Math.max(Date.parse(update.expiresAt!) - Date.now() - skew, 0);
        after(update.expiresInMs + 1000); // and then it is over
      } else due = Infinity;
      if (pushed) mine.abort();
    }
    tell(update);
  }

  function moved(): { movedFrom?: number } {
    return movedFrom === undefined ? {} : { movedFrom };
  }

  function refused(r: Reply): void {
    if (r.status === 429 || r.status >= 500 || r.status < 400 || r.body.code === "not_found") failed(r.after);
    else end({ state: "refused", code: String(r.body.code), detail: String(r.body.detail ?? "") });
  }

  // ---- the stream

  const nearBy = (u: Update): boolean =>
    !again && !u.opensAt && !u.paused && u.position !== undefined && u.position <= NEAR && Date.now() >= streamFrom;

  const near = (): boolean => last.state === "waiting" && !!kept.receipt && nearBy(last);

  async function stream(mine: AbortController): Promise<void> {
    const began = alive;
    let limit: ReturnType<typeof setTimeout> | undefined;
    const within = (ms: number): void => {
      clearTimeout(limit);
      limit = setTimeout(() => mine.abort(), ms);
    };
    let told = 0;
    let notNear = false;
    let heard = false;
    try {
      within(FIRST_EVENT_MS);
      const res = await fetch(base + "/queue/events?queue=" + queue, {
        headers: {
          Accept: "text/event-stream",
          ...headers(kept.receipt),
          ...(lastEvent && { "Last-Event-ID": lastEvent }),
        },
        signal: mine.signal,
        cache: "no-store",
      });
      if (res.ok && res.body) {
        setSkew(res);
        const bytes = (): void => {
          alive = Date.now();
          within(heard ? SILENT_MS : FIRST_EVENT_MS);
          if (heard && request === mine && last.state === "waiting") renew(alive);
        };
        await events(res.body, bytes, (data) => {
          if (request !== mine) return;
          heard = true;
          const body = JSON.parse(data) as Record<string, unknown>;
          answered(body, Number(body.retryAfterMs) || 0, mine, true);
        });
      } else {
        told = (await read(res)).after;
        notNear = res.status === 409;
      }
    } catch {
      // told below, like an end
    } finally {
      clearTimeout(limit);
    }
    if (request !== mine || last.state !== "waiting") return;
    streamFailures = Date.now() - began > SILENT_MS ? 0 : streamFailures + 1;
    // By a poll; only the stream waits for a server that has too many. Those who lost it together don't come together.
    const poll = (notNear && told) || (every || streamPause) * (1 + Math.random());
    streamFrom = Date.now() + Math.max(told, Math.min(streamPause * 2 ** streamFailures, LONGEST_STREAM_PAUSE_MS));
    lost = true;
    after(poll);
  }

  /** A server that writes, and writes no event, says that what it said is so still. */
  function renew(at: number): void {
    const passed = at - last.at;
    if (passed < RENEW_MS) return;
    const { opensInSeconds: left } = last;
    tell({ ...last, at, ...(left && { opensInSeconds: Math.max(left - passed / 1000, 0) }) });
  }

  async function events(body: ReadableStream<Uint8Array>, heard: () => void, tell: (data: string) => void): Promise<void> {
    const reader = body.getReader();
    const decoder = new TextDecoder();
    let rest = "";
    let data = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const lines = (rest + decoder.decode(value, { stream: true })).split(/\r?\n/);
      rest = lines.pop()!;
      for (const line of lines) {
        const [, field, text = ""] = /^(\w*):? ?(.*)$/.exec(line) ?? [];
        if (line === "") {
          if (data) tell(data);
          data = "";
        } else if (field === "data") data += text + "\n";
        else if (field === "id") lastEvent = text;
        else if (field === "retry" && +text > 0) streamPause = +text;
      }
      heard();
    }
  }

  // ---- the server's clock against this one, by its Date header; a second is all it tells

  let skew = 0;

  function setSkew(res: Response): void {
    const date = Date.parse(res.headers.get("Date") ?? "");
    if (date) skew = Math.abs(date - Date.now()) > 2000 ? date - Date.now() : 0;
  }

  async function read(res: Response): Promise<Reply> {
    setSkew(res);
    const body = ((await res.json().catch(() => null)) ?? {}) as Record<string, unknown>;
    if (res.ok && !body.state && !body.status) throw new Error("not an answer"); // of a network that wants a login
    const after = Number(body.retryAfterMs ?? Number(res.headers.get("Retry-After")) * 1000) || 0;
    // What refuses without a code of ours stands between: it may pass.
    return { status: res.ok || body.code ? res.status : 503, body, after };
  }

  // ---- one tab of several asks: the one that was looked at last

  /** Asks for the lock: takes it from another tab, or waits until that goes away. */
  function lead(steal: boolean): void {
    const mine = ++claim;
    if (!locks) {
      take();
      return;
    }
    void locks
      .request(name, steal ? { steal } : {}, () => {
        if (mine !== claim || stopped) return undefined;
        take();
        return new Promise<void>((resolve) => (release = resolve));
      })
      .catch(() => undefined)
      .then(() => {
        if (mine !== claim || stopped) return;
        leading = false; // another tab has taken it
        halt();
        lead(false);
      });
  }

  function take(): void {
    leading = true;
    load(); // the other tab may have entered, or have a newer receipt
    if (last.state === "entering" && (kept.receipt || resume)) last = { state: "waiting", at: Date.now() }; // nothing else is known
    if (due === Infinity && !final()) due = 0;
    arm();
  }

  function letGo(): void {
    claim++;
    leading = false;
    halt();
    release?.();
    release = undefined;
  }

  function onVisibility(): void {
    if (stopped) return;
    if (hidden()) arm();
    else if (!leading) lead(true);
    else if (request && Date.now() - alive > STALE_MS) {
      halt();
      after(0);
    } else arm(); // asks at once where that is due
  }

  function onNetwork(): void {
    if (stopped || !leading || final()) return;
    halt();
    failures = 0;
    if (agent?.onLine === false) failed(0);
    else after(0);
  }

  function onPageHide(): void {
    letGo(); // a page in the browser's memory holds nothing up
  }

  function onPageShow(e: PageTransitionEvent): void {
    if (!e.persisted || stopped) return;
    due = final() ? Infinity : 0;
    lead(!hidden());
  }

  if (channel)
    channel.onmessage = ({ data }: MessageEvent<0 | [Update, number, number]>) => {
      if (!data) {
        if (leading) channel.postMessage([last, due, interval]);
      } else if (!leading) {
        [last, due, interval] = data;
        options.onUpdate({ ...last, elsewhere: true });
      }
    };
  page?.addEventListener("visibilitychange", onVisibility);
  globalThis.addEventListener?.("online", onNetwork);
  globalThis.addEventListener?.("offline", onNetwork);
  globalThis.addEventListener?.("pagehide", onPageHide);
  globalThis.addEventListener?.("pageshow", onPageShow);
  load();
  channel?.postMessage(0);
  // Of tabs that are opened at one moment, without a place yet, one enters: what it keeps takes a while to be seen by the others, and
  // a tab that took the lock by then would enter with a key of its own.
  const nobody = !kept.receipt && !resume;
  lead(!hidden() && !nobody);
  if (nobody)
    setTimeout(() => {
      if (claim === 1 && !leading && !hidden()) lead(true); // waits still for its first turn
    }, SEEN_MS);

  return {
    enter() {
      halt();
      if (last.state === "waiting") again = true;
      else {
        movedFrom = undefined;
        keep({ key: randomKey() }); // a place that is over gives no claim to the next one
        last = { state: "entering", at: Date.now() };
      }
      after(0);
      if (!leading) lead(true); // whoever has pressed something is here
    },
    async leave() {
      halt();
      load();
      const mine = (request = new AbortController());
      alive = Date.now();
      let r: Reply | undefined;
      try {
        r = await post(mine, "/queue/leave", headers(kept.receipt));
      } catch {
        // told below
      }
      if (request !== mine) return; // the network has changed: what becomes of the place is asked anew
      request = undefined;
      if (!r) failed(0);
      else if (r.status < 300) end({ state: "over", reason: "left" });
      else refused(r);
      arm();
    },
    stop() {
      letGo();
      stopped = true;
      channel?.close();
      page?.removeEventListener("visibilitychange", onVisibility);
      globalThis.removeEventListener?.("online", onNetwork);
      globalThis.removeEventListener?.("offline", onNetwork);
      globalThis.removeEventListener?.("pagehide", onPageHide);
      globalThis.removeEventListener?.("pageshow", onPageShow);
    },
  };
}

function text<Name extends string>(body: Record<string, unknown>, name: Name): { [n in Name]?: string } {
  return (typeof body[name] === "string" ? { [name]: body[name] } : {}) as { [n in Name]?: string };
}

/** 128 bits: where there is no receipt yet, the key alone says who asks. */
function randomKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, "0")).join("");
}

function usableStorage(): Pick<Storage, "getItem" | "setItem"> {
  try {
    localStorage.getItem("soonbeon");
    return localStorage;
  } catch {
    const memory = new Map<string, string>();
    return { getItem: (k) => memory.get(k) ?? null, setItem: (k, v) => void memory.set(k, v) };
  }
}
