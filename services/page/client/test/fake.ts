// A browser and a server small enough to be looked through: what is asked is written down, and answered by a script.
import { mock } from "node:test";

export interface Asked {
  at: number;
  method: string;
  path: string;
  key: string | undefined;
  bearer: string | undefined;
  lastEvent: string | undefined;
}

export type Answer = (asked: Asked) => Response | Promise<Response> | Error;

export class World {
  asked: Asked[] = [];
  open = 0; // requests under way
  most = 0; // and at most
  answer: Answer;
  page: EventTarget & { visibilityState: string };
  agent: { onLine: boolean; locks?: unknown };
  kept = new Map<string, string>();
  storage = {
    getItem: (k: string): string | null => this.kept.get(k) ?? null,
    setItem: (k: string, v: string): void => void this.kept.set(k, v),
  };

  constructor(answer: Answer) {
    this.answer = answer;
    mock.timers.enable({ apis: ["setTimeout", "Date"], now: 1_700_000_000_000 });
    this.page = Object.assign(new EventTarget(), { visibilityState: "visible" });
    this.agent = { onLine: true };
    const events = new EventTarget();
    const set = (name: string, value: unknown): void =>
      Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });
    set("document", this.page);
    set("navigator", this.agent);
    set("BroadcastChannel", undefined);
    set("addEventListener", events.addEventListener.bind(events));
    set("removeEventListener", events.removeEventListener.bind(events));
    set("dispatchEvent", events.dispatchEvent.bind(events));
    set("fetch", (url: string, init: RequestInit) => this.fetch(url, init));
  }

  async fetch(url: string, init: RequestInit): Promise<Response> {
    const h = (init.headers ?? {}) as Record<string, string>;
    const asked: Asked = {
      at: Date.now(), method: init.method ?? "GET", path: url, key: h["Idempotency-Key"],
      bearer: h.Authorization?.replace("Bearer ", ""), lastEvent: h["Last-Event-ID"],
    };
    this.asked.push(asked);
    this.most = Math.max(this.most, ++this.open);
    try {
      const a = await new Promise<Response | Error>((resolve, reject) => {
        init.signal?.addEventListener("abort", () => reject(new Error("aborted")));
        void Promise.resolve(this.answer(asked)).then(resolve);
      });
      if (a instanceof Error) throw a;
      init.signal?.addEventListener("abort", () => streams.get(a)?.cut());
      return a;
    } finally {
      this.open--;
    }
  }

  /** Lets ms pass, a step at a time, with everything that is ready done after each. */
  async pass(ms: number, step = 250): Promise<void> {
    await this.ready();
    for (let left = ms; left > 0; left -= step) {
      mock.timers.tick(Math.min(step, left));
      await this.ready();
    }
  }

  /** Everything that is due now, and what follows from it at once. */
  private async ready(): Promise<void> {
    for (let before = -1; before !== this.asked.length; ) {
      before = this.asked.length;
      await settle();
      mock.timers.tick(0);
      await settle();
    }
  }

  show(visible: boolean): void {
    this.page.visibilityState = visible ? "visible" : "hidden";
    this.page.dispatchEvent(new Event("visibilitychange"));
  }

  network(on: boolean): void {
    this.agent.onLine = on;
    globalThis.dispatchEvent(new Event(on ? "online" : "offline"));
  }

  paths(): string[] {
    return this.asked.map((a) => a.method + " " + a.path.replace(/\?.*/, ""));
  }

  end(): void {
    mock.timers.reset();
  }
}

export async function settle(): Promise<void> {
  for (let i = 0; i < 8; i++) await new Promise((r) => setImmediate(r));
}

export function json(status: number, body: unknown, headers: Record<string, string> = {}): Response {
  return new Response(JSON.stringify(body), { status, headers: { "Content-Type": "application/json", ...headers } });
}

export const accepted = (ticket = 7, receipt = "r0", retryAfterMs = 2000): Response =>
  json(202, { status: "accepted", queue: "main", visitor: "v", ticket, receipt, retryAfterMs });

export const waiting = (position: number, receipt: string, retryAfterMs = 5000, more: object = {}): Response =>
  json(200, { state: "waiting", position, ahead: position - 1, total: position + 10, ticket: 7, nowServing: 1, retryAfterMs, precision: "exact", receipt, ...more });

export const problem = (status: number, code: string, retryAfter = 0, more: object = {}): Response =>
  json(status, { code, status, detail: "d", ...more }, retryAfter ? { "Retry-After": String(retryAfter) } : {});

const streams = new WeakMap<Response, Events>();

/** A stream that the test writes to; it is cut when its request is given up, as in a browser. */
export class Events {
  constructor() {
    streams.set(this.response, this);
  }
  cut(): void {
    try {
      this.to.error(new Error("aborted"));
    } catch {
      // closed already
    }
  }
  private to!: ReadableStreamDefaultController<Uint8Array>;
  readonly response = new Response(new ReadableStream<Uint8Array>({ start: (c) => void (this.to = c) }), {
    headers: { "Content-Type": "text/event-stream" },
  });
  write(text: string): void {
    this.to.enqueue(new TextEncoder().encode(text));
  }
  close(): void {
    this.to.close();
  }
}
