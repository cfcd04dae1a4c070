// What is said, in the reader's language, and numbers and times as they are written there.
let all = {};
let text = {};
export let lang = "en";

/** What is said until the words are there. */
export const WORDLESS = {
  en: "soonbeon does not answer; trying again…",
  ko: "soonbeon이 응답하지 않습니다. 다시 시도하고 있습니다…",
};

export async function load() {
  const res = await fetch("words.json");
  if (!res.ok) throw new Error(res.statusText);
  all = await res.json();
  const wanted = [localStorage.getItem("soonbeon-lang"), ...navigator.languages];
  choose(wanted.map((l) => l?.split("-")[0]).find((l) => all[l]) ?? "en");
}

export function choose(tag) {
  lang = tag;
  text = all[tag];
  document.documentElement.lang = tag;
}

export const languages = () => Object.entries(all).map(([tag, words]) => [tag, words.name]);

/** The text called name, {values} filled in. */
export const t = (name, values = {}) => (text[name] ?? name).replace(/\{(\w+)\}/g, (_, k) => values[k] ?? "");

/** The text called name, or other where there is none: for codes that a newer program may have. */
export const tOr = (name, other) => text[name] ?? other;

export const UNKNOWN = "–";

export const n = (v, digits = 0) => (v == null ? UNKNOWN : new Intl.NumberFormat(lang, { maximumFractionDigits: digits }).format(v));

const unit = (v, unit, digits = 0) => new Intl.NumberFormat(lang, { style: "unit", unit, unitDisplay: "short", maximumFractionDigits: digits }).format(v);

/** A length of time: its two largest units. */
export function span(ms) {
  if (ms == null) return UNKNOWN;
  const s = Math.round(ms / 1000);
  if (s < 60) return unit(s, "second");
  const [a, b, big, little] = s < 3600 ? [s / 60, s % 60, "minute", "second"] : s < 86400 ? [s / 3600, (s % 3600) / 60, "hour", "minute"] : [s / 86400, (s % 86400) / 3600, "day", "hour"];
  const rest = Math.floor(b);
  return unit(Math.floor(a), big) + (rest ? " " + unit(rest, little) : "");
}

/** A moment: the time of day, and the day where that isn't today's. */
export function moment(ms) {
  const at = new Date(ms);
  const today = at.toDateString() === new Date().toDateString();
  return new Intl.DateTimeFormat(lang, { timeStyle: "medium", ...(today ? {} : { dateStyle: "medium" }) }).format(at);
}

export const clock = (ms) => new Intl.DateTimeFormat(lang, { hour: "numeric", minute: "2-digit" }).format(new Date(ms));
