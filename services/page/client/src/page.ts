// The waiting page: what the client is told, said in the reader's language. view.go makes the same of an answer where there are
// no scripts, and has the same list of views.
import { wait, type Place, type Update } from "./soonbeon-client";

interface Data {
  queue: string;
  lang: string;
  text: Record<string, string>;
  reentry: string;
  /** Where the token is handed over and where it goes on from there; "" where the answer says it. */
  action: string;
  to: string;
  plain: string;
  /** The browser holds a receipt as a cookie. */
  resume: boolean;
  /** What operators look at in a preview. */
  preview?: { update: Update; flags: string[] };
}

const byId = (id: string): HTMLElement | null => document.getElementById(id);
const data = JSON.parse(byId("soonbeon-data")!.textContent!) as Data;
const root = byId("soonbeon")!;
const { text, queue } = data;
const parts = Array.from(document.querySelectorAll<HTMLElement>("[data-t],[data-when]"));
const pageTitle = document.title;

const locale = ofReader();
const numbers = new Intl.NumberFormat(locale);
const ordinals = new Intl.PluralRules(data.lang, { type: "ordinal" });
const dates = new Intl.DateTimeFormat(locale, { dateStyle: "long", timeStyle: "short" });

/** What the reader calls the page's language: numbers and dates in en-GB are not those of en-US. */
function ofReader(): string {
  const base = (tag: string): string => tag.toLowerCase().split("-")[0]!;
  for (const tag of navigator.languages ?? []) {
    try {
      if (base(tag) === base(data.lang)) return Intl.getCanonicalLocales(tag)[0]!;
    } catch {
      // "en-US@posix", and what else systems come up with
    }
  }
  return data.lang;
}

const fragment = /^#identity=/.test(location.hash) ? "" : location.hash;

let place: Place | undefined;
let now: Update = { state: "entering", at: Date.now() };
let heard = performance.now(); // when now was told, by a clock that nobody sets
let view = "entering";
/** Where to go to by itself, from when on, and how long before the end also without being looked at. */
let going: { url: string; at: number; late: number } | undefined;
let flags: string[] = [];

// ---- words

type Values = Record<string, string | undefined>;

function fill(names: string, values: Values): string {
  for (const name of names.split(" ")) {
    if (name[0] === "=") return values[name.slice(1)] ?? "";
    let ok = true;
    const filled = (text[name.replace("@", view)] ?? "").replace(/\{(\w+)\}/g, (_, key: string) => {
      if (!values[key]) ok = false;
      return values[key] ?? "";
    });
    if (ok && filled) return filled;
  }
  return "";
}

const ordinal = (n: number): string =>
  (text["ordinal." + ordinals.select(n)] ?? text["ordinal.other"]!).replace("{n}", numbers.format(n));

function range(seconds: number): string {
  if (seconds < 60) return text["wait.soon"]!;
  const hours = seconds >= 6000;
  const unit = hours ? 3600 : 60;
  const low = Math.max(Math.floor((seconds * 9) / (10 * unit)), 1); // of whole numbers: 10 * 1.1 is more than 11
  const high = Math.max(Math.ceil((seconds * 11) / (10 * unit)), low + 1);
  return fill(hours ? "wait.hours" : "wait.minutes", { low: numbers.format(low), high: numbers.format(high) });
}

function clock(ms: number): string {
  const s = Math.max(Math.ceil(ms / 1000), 0);
  const two = (n: number): string => String(Math.floor(n)).padStart(2, "0");
  const days = Math.floor(s / 86400);
  const h = Math.floor(s / 3600) % 24;
  const m = Math.floor(s / 60) % 60;
  return (days ? fill("days", { n: numbers.format(days) }) : "") + (days || h ? h + ":" + two(m) : m) + ":" + two(s % 60);
}

const since = (): number => performance.now() - heard;

function fresh(): string {
  const s = Math.floor((Date.now() - now.at) / 1000);
  if (s < 3) return text["fresh.now"]!;
  const n = s < 60 ? (s < 10 ? s : s - (s % 5)) : Math.floor(s / 60);
  return fill(s < 60 ? "fresh.seconds" : "fresh.minutes", { n: numbers.format(n) });
}

function values(): Values {
  const u = now;
  const num = (n: number | undefined): string | undefined => (n === undefined ? undefined : numbers.format(n));
  const placed = view === "waiting" || view === "paused" || view === "notopen";
  const sure = u.precision !== "approximate"; // a bound is said as one, and nothing that sounds surer beside it
  return {
    position: sure ? num(u.position) : undefined,
    ordinal: sure && u.position && placed ? ordinal(u.position) : undefined,
    ahead: num(u.ahead),
    behind: sure ? num(u.behind) : undefined,
    total: sure ? num(u.total) : undefined,
    ticket: num(u.ticket),
    number: num(u.number),
    nowServing: u.opensAt ? undefined : num(u.nowServing), // before that, nobody is served
    movedFrom: num(u.movedFrom),
    wait: u.etaSeconds === undefined ? undefined : range(u.etaSeconds),
    message: u.message,
    commitment: u.commitment,
    code: u.code,
    opensAt: u.opensAt && dates.format(new Date(u.opensAt)),
    countdown: u.opensInSeconds === undefined ? undefined : clock(u.opensInSeconds * 1000 - since()),
    left: u.expiresInMs === undefined ? undefined : clock(u.expiresInMs - since()),
    fresh: u.state === "waiting" ? fresh() : undefined,
  };
}

// ---- what is seen

function viewOf(u: Update): string {
  switch (u.state) {
    case "admitted":
      return "turn";
    case "over":
      return /^(expired|left|released|sold_out)$/.test(u.reason!) ? u.reason! : "ended";
    case "closed":
      return u.reason === "sold_out" ? "sold_out" : "shut";
    case "refused":
      return u.code === "queue_unknown" ? "unknown" : "refused";
    case "waiting":
      return u.order === "draw" ? "draw" : u.opensAt ? "notopen" : u.paused ? "paused" : "waiting";
  }
  return "entering";
}

function show(u: Update): void {
  const was = view;
  now = u;
  heard = performance.now() - (Date.now() - u.at);
  view = viewOf(u);
  const inLine = u.state === "waiting";
  flags = [view, "scripted", ...(data.preview?.flags ?? [])];
  if (inLine) flags.push("inline");
  if (inLine) flags.push(view === "draw" ? "keep" : data.reentry); // before lots are drawn there is nothing to lose
  if (inLine && u.precision === "approximate") flags.push("approximate");
  if (u.trouble) flags.push(u.trouble);
  if (inLine && u.movedFrom !== undefined) flags.push("moved");
  if (/^(expired|left|released|shut)$/.test(view)) flags.push("again");
  if (view === "turn") arrive(u);
  else going = undefined;
  if (!inLine) (byId("sb-ask") as HTMLDialogElement | null)?.close?.(); // what it asks is no question any more
  root.dataset.view = view;
  bar(u);
  draw();
  const v = values();
  document.title = (view === "turn" ? text["title.turn"]! : view === "waiting" ? fill("title.position title.about", v) : "") || fill("@.title", v) || pageTitle;
  say(was !== view, v);
  if (view === "turn" && was !== "turn") alarm();
}

function draw(): void {
  const v = values();
  for (const part of parts) {
    const { t, when } = part.dataset;
    let seen = when === undefined || when.split(" ").some((w) => flags.includes(w));
    if (t !== undefined) {
      const words = fill(t, v);
      if (part.textContent !== words) part.textContent = words;
      seen = seen && words !== "";
    }
    if (part.hidden === seen) part.hidden = !seen;
  }
  // What was pressed is gone, and whoever goes by the keyboard would begin anew at the top of the window.
  if (document.activeElement?.closest("[hidden]")) root.focus({ preventScroll: true });
}

/** How far the way to the front has been gone. It never goes back: not by a bound that is looser, not in another tab. */
function bar(u: Update): void {
  const progress = root.querySelector("progress");
  if (!progress || u.ahead === undefined || u.ticket === undefined) return;
  const name = "soonbeon:" + queue + ":way";
  let way = { ticket: 0, first: 0, gone: 0 };
  try {
    way = JSON.parse(localStorage.getItem(name) ?? "") as typeof way;
  } catch {
    // the first time, or nothing is kept here
  }
  const kept = Number(progress.dataset.ticket) === u.ticket ? { ticket: u.ticket, first: Number(progress.dataset.first), gone: progress.value } : way;
  if (way.ticket !== u.ticket) way = kept.ticket === u.ticket ? kept : { ticket: u.ticket, first: u.ahead + 1, gone: 0 };
  way.first = Math.max(way.first, (u.ahead + 1) * (data.preview ? 2 : 1)); // a preview is of somebody half-way
  way.gone = Math.max(way.gone, Math.floor(1000 * (1 - u.ahead / way.first)));
  progress.value = way.gone;
  progress.dataset.ticket = String(way.ticket);
  progress.dataset.first = String(way.first);
  try {
    if (!data.preview) localStorage.setItem(name, JSON.stringify(way));
  } catch {
    // this tab still knows
  }
}

// ---- what is heard

const SAY_MS = 30_000;
let said = -Infinity;
let happened = "";

/** Changes are said at a pace that can be listened to: what happens at once, numbers twice a minute. */
function say(viewed: boolean, v: Values): void {
  const box = byId("sb-said");
  if (!box) return;
  const message = v.message ?? "";
  const moved = flags.includes("moved") ? fill("moved", v) : "";
  const trouble = now.trouble ? fill(`@.${now.trouble} ${now.trouble}`, v) : "";
  const place = view === "notopen" ? "" : fill(now.state === "waiting" ? "say.position ahead.about" : "", v);
  const is = [message, moved, trouble, place && "placed"].join("|");
  const changed = viewed || is !== happened;
  if (!changed && (performance.now() - said < SAY_MS || document.hidden)) return;
  happened = is;
  // What happened is said once, and goes without saying beside the numbers that follow.
  const words = [fill("@.title", v), viewed ? fill("@.text", v) : "", place, v.wait, changed ? message : "", changed ? moved : "", trouble]
    .filter(Boolean)
    .map((w) => w + (/[.!?]$/.test(w!) ? "" : "."))
    .join(" ");
  box.setAttribute("aria-live", view === "turn" ? "assertive" : "polite");
  if (box.textContent === words) return;
  box.textContent = words;
  said = performance.now();
}

let audio: AudioContext | undefined;
let muted = false; // asked for, and then not

function tone(hz: number, after: number, lasts: number): void {
  if (!audio) return;
  const oscillator = audio.createOscillator();
  const volume = audio.createGain();
  oscillator.frequency.value = hz;
  volume.gain.value = 0.2;
  oscillator.connect(volume).connect(audio.destination);
  oscillator.start(audio.currentTime + after);
  oscillator.stop(audio.currentTime + after + lasts);
}

function alarm(): void {
  if (data.preview || now.elsewhere || muted) return;
  for (const [i, hz] of [660, 880, 660, 880].entries()) tone(hz, i * 0.3, 0.22);
  try {
    if (document.hidden && Notification.permission === "granted")
      new Notification(text["turn.title"]!, { body: fill("turn.left", values()), tag: "soonbeon:" + queue }).onclick = () => window.focus();
  } catch {
    // phones allow it only from a service worker: the sound and the title have told
  }
}

async function wantAlarm(button: HTMLElement): Promise<void> {
  const wanted = button.getAttribute("aria-pressed") !== "true";
  button.setAttribute("aria-pressed", String(wanted));
  button.textContent = text[wanted ? "alert.on" : "alert"]!;
  muted = !wanted;
  try {
    if (!wanted) return;
    audio ??= new AudioContext();
    await audio.resume();
    tone(440, 0, 0.08); // so that it is known how it sounds
    await Notification.requestPermission();
  } catch {
    // no sound, or no notification: the title still tells
  }
}

// ---- the turn

/** Long enough to be read, short beside the time that an admission lasts. */
const GO_AFTER_MS = 2500;
/** A tab that nobody looks at waits for its person, but not to the end. Browsers wake such a tab once a minute. */
const GO_BEFORE_END_MS = 90_000;

function arrive(u: Update): void {
  if (going) {
    flags.push("going", "taking");
    return;
  }
  let { action, to } = data;
  if (!action && u.admitTo) {
    const at = new URL(u.admitTo, location.href);
    if (/^https?:$/.test(at.protocol)) {
      action = at.origin + "/.well-known/soonbeon/arrive/" + queue;
      to = "/" + (at.pathname + at.search + at.hash).replace(/^\/+/, "");
    }
  }
  // A part of the page that was wanted is known to nobody but the browser, which has kept it through the gate's redirect.
  else if (action && fragment && !to.includes("#")) to += fragment;
  const button = byId("sb-go") as HTMLAnchorElement | null;
  if (!action || !u.token) {
    flags.push("nowhere");
    return;
  }
  flags.push("going");
  const url = action + "#token=" + u.token + "&to=" + encodeURIComponent(to);
  if (button) button.href = url;
  if (u.elsewhere) flags.push("elsewhere");
  else if (handedOver(u.token)) flags.push("stuck");
  else {
    flags.push("taking");
    going = { url, at: performance.now() + GO_AFTER_MS, late: Math.min(GO_BEFORE_END_MS, (u.expiresInMs ?? 0) / 3) };
  }
}

/** Whether this tab went there with this token before: a site that does not keep it would send people round in a circle. */
function handedOver(token: string, set?: boolean): boolean {
  const name = "soonbeon:" + queue + ":gone";
  try {
    if (set) sessionStorage.setItem(name, token.slice(-20));
    return sessionStorage.getItem(name) === token.slice(-20);
  } catch {
    return false;
  }
}

function go(): void {
  if (!going || data.preview) return;
  const { url } = going;
  depart();
  location.replace(url);
}

/** The site has it from here on. */
function depart(): void {
  going = undefined;
  handedOver(now.token!, true);
  place?.stop();
  place = undefined;
}

function tick(): void {
  draw();
  if (!going) return;
  const left = (now.expiresInMs ?? Infinity) - since();
  if (performance.now() >= going.at && left > 0 && (!document.hidden || left < going.late)) go();
}

// ---- reloading, and leaving

const MARK = "soonbeon:" + queue + ":seen";

/**
 * Whether a person asked for this reload while looking at the page. A tab that the browser discarded and loads again, a page
 * that could not be loaded and comes by itself once the network is back, forward and back, and a restored window are none:
 * the page was not showing when the load began.
 */
function reloaded(): boolean {
  const [entry] = performance.getEntriesByType("navigation") as PerformanceNavigationTiming[];
  if (entry?.type !== "reload" || (document as { wasDiscarded?: boolean }).wasDiscarded) return false;
  try {
    // timeOrigin would be by another clock than the mark: browsers keep it where it was when this one is set.
    return Number(sessionStorage.getItem(MARK)) >= Date.now() - performance.now() - 250;
  } catch {
    return false;
  }
}

function question(name: string, then: () => void): void {
  const dialog = byId("sb-ask") as HTMLDialogElement | null;
  const ask = fill(name + ".ask " + name + ".unknown", values()) || text["back.unknown"]!;
  if (!dialog?.showModal) {
    if (confirm(ask)) then();
    return;
  }
  const [no, yes] = Array.from(dialog.querySelectorAll("button"));
  byId("sb-question")!.textContent = ask;
  no!.textContent = text[name + ".no"]!;
  yes!.textContent = text[name + ".yes"]!;
  dialog.onclose = () => {
    if (dialog.returnValue === "yes") then();
    dialog.returnValue = "";
  };
  dialog.showModal();
}

/** The keys that reload are asked about. A button of the browser's can't be: the page says it before. */
function onKey(e: KeyboardEvent): void {
  const reload = e.key === "F5" || ((e.ctrlKey || e.metaKey) && e.key.toLowerCase() === "r");
  if (!reload || !flags.includes("back")) return;
  e.preventDefault();
  if (!(byId("sb-ask") as HTMLDialogElement | null)?.open) question("reload", () => location.reload());
}

function begin(again = data.reentry === "back" && reloaded()): void {
  const hash = new URLSearchParams(location.hash.slice(1));
  const credential = hash.get("identity");
  if (credential) history.replaceState(null, "", location.pathname + location.search);
  place = wait({
    queue,
    onUpdate: show,
    resume: data.resume,
    again,
    ...(credential && { credential }),
  });
}

addEventListener("pagehide", () => {
  if (!flags.includes("back")) return; // the page has not said that a reload costs anything
  try {
    sessionStorage.setItem(MARK, String(Date.now()));
  } catch {
    // then every load keeps the place
  }
});
addEventListener("keydown", onKey);
byId("sb-alert")?.addEventListener("click", (e) => void wantAlarm(e.currentTarget as HTMLElement));
byId("sb-leave")?.addEventListener("click", () => question("leave", () => void place?.leave()));
byId("sb-enter")?.addEventListener("click", () => place?.enter());
byId("sb-go")?.addEventListener("click", (e) => {
  if (data.preview) e.preventDefault();
  else depart();
});
for (const link of Array.from(document.querySelectorAll<HTMLAnchorElement>("footer a"))) if (fragment) link.hash = fragment;
document.addEventListener("visibilitychange", tick);
// Who went to the site and comes back finds the page as it was left.
addEventListener("pageshow", (e) => {
  if (e.persisted && !place && !data.preview) begin(false);
});
setInterval(tick, 1000);

if (data.preview) {
  show({ ...data.preview.update, at: Date.now() });
  const asked = /ask-(\w+)/.exec(String(data.preview.flags));
  if (asked) question(asked[1]!, () => undefined);
}
else if (!window.AbortController) location.replace(data.plain);
else if ((document as { prerendering?: boolean }).prerendering) document.addEventListener("prerenderingchange", () => begin(), { once: true });
else begin();
