// Draws lines over the last hour, as SVG.
import { clock, n, span as length, t } from "./words.js";

const W = 600, H = 170, LEFT = 66, RIGHT = 8, TOP = 10, BELOW = 22, HOUR = 3600e3, LEAST = 300e3;
const NS = "http://www.w3.org/2000/svg";

function s(tag, props, text) {
  const e = document.createElementNS(NS, tag);
  for (const [k, v] of Object.entries(props)) e.setAttribute(k, v);
  if (text != null) e.textContent = text;
  return e;
}

/** The next round time that is not below ms: a second, …, a minute, …, days. */
function niceTime(ms) {
  const steps = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 28800, 43200];
  return 1000 * (steps.find((s) => s * 1000 >= ms) ?? Math.ceil(ms / 86400e3) * 86400);
}

/** A time as on a stop watch: short enough for an axis. */
function watch(ms) {
  const s = Math.round(ms / 1000), two = (v) => String(v).padStart(2, "0");
  return (s < 3600 ? Math.floor(s / 60) : Math.floor(s / 3600) + ":" + two(Math.floor((s % 3600) / 60))) + ":" + two(s % 60);
}

function nice(v) {
  if (!(v > 0)) return 1;
  const unit = 10 ** Math.floor(Math.log10(v));
  return [1, 2, 5, 10].find((m) => m * unit >= v * 0.999999) * unit;
}

/** An empty picture, to be drawn into. */
export const picture = () => s("svg", { viewBox: `0 0 ${W} ${H}`, role: "img" });

/**
 * Draws lines = [{name, cls, values, fill}] over at (ms), level = {name, v} across, and shades = [{fromMs, toMs}]. null breaks a line.
 * times: values are milliseconds. What can be seen is said, too: the last value and the highest.
 */
export function draw(svg, label, at, lines, { level, shades = [], times = false } = {}) {
  const format = times ? length : (v) => n(v, 1);
  const to = at.at(-1) ?? Date.now();
  const span = Math.min(HOUR, Math.max(LEAST, to - (at[0] ?? to))), from = to - span; // a process that has just started fills its pictures, too
  let top = level?.v ?? 0;
  for (const l of lines) for (const v of l.values) if (v > top) top = v;
  const step = (times ? niceTime : nice)(top / 3);
  top = Math.max(step, Math.ceil(top / step - 1e-9) * step);
  const x = (ms) => LEFT + (Math.max(0, ms - from) / span) * (W - LEFT - RIGHT);
  const y = (v) => H - BELOW - (v / top) * (H - BELOW - TOP);
  const all = [];
  for (const d of shades) {
    const end = d.toMs || to;
    if (end > from) all.push(s("rect", { class: "shade", x: x(d.fromMs), y: TOP, width: Math.max(2, x(end) - x(d.fromMs)), height: H - BELOW - TOP }));
  }
  for (let v = 0; v <= top + step / 2; v += step) {
    all.push(s("line", { class: "grid", x1: LEFT, x2: W - RIGHT, y1: y(v), y2: y(v) }), s("text", { class: "tick", "text-anchor": "end", x: LEFT - 6, y: y(v) + 4 }, times ? watch(v) : format(v)));
  }
  const every = niceTime(span / 4);
  for (let ms = Math.ceil(from / every) * every; ms <= to; ms += every) {
    if (x(ms) > LEFT + 14 && x(ms) < W - 30) all.push(s("text", { class: "tick", "text-anchor": "middle", x: x(ms), y: H - 5 }, clock(ms)));
  }
  for (const l of lines) {
    let path = "", area = "", start = null, last = null;
    l.values.forEach((v, i) => {
      if (v == null) {
        if (start != null) area += `L${last} ${y(0)}L${start} ${y(0)}Z`;
        start = null;
        return;
      }
      last = x(at[i]).toFixed(1);
      const p = (start == null ? "M" : "L") + last + " " + y(v).toFixed(1);
      start ??= last;
      path += p;
      area += p;
    });
    if (start != null) area += `L${last} ${y(0)}L${start} ${y(0)}Z`;
    if (l.fill && area) all.push(s("path", { class: "area " + l.cls, d: area }));
    if (path) all.push(s("path", { class: "line " + l.cls, d: path }));
  }
  if (level) all.push(s("line", { class: "level", x1: LEFT, x2: W - RIGHT, y1: y(level.v), y2: y(level.v) }));
  svg.replaceChildren(...all);
  const told = lines.map((l) => {
    const known = l.values.filter((v) => v != null);
    const last = l.values.at(-1);
    return known.length ? t("plot.told", { name: l.name, now: last == null ? t("unknown") : format(last), most: format(Math.max(...known)) }) : t("plot.none", { name: l.name });
  });
  svg.setAttribute("aria-label", label + ". " + told.join(" "));
}
