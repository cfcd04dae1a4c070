// The operators' screen: sign in, all queues at a glance, one of them closely.
import { act, ask, offered, problemText, wrong } from "./act.js";
import { h, put } from "./html.js";
import { draw, picture } from "./plot.js";
import { follow } from "./stream.js";
import { choose, lang, languages, load, moment, n, span, t, tOr, UNKNOWN, WORDLESS } from "./words.js";

const KEY = "soonbeon-operator";
const main = document.getElementById("main");
const link = document.getElementById("link");
const out = document.getElementById("out");
let secret = sessionStorage.getItem(KEY);
let stop = () => {};
let rows = new Map(); // id → row
let view; // {rows(), queue(), samples()…} of what is shown

function chosen() {
  if (!location.hash.startsWith("#queue=")) return "";
  const name = location.hash.slice(7);
  try {
    return decodeURIComponent(name);
  } catch {
    return name; // somebody wrote it by hand: there is no such queue, and that is told
  }
}

let saying;
function say(text) {
  const e = document.getElementById("said");
  clearTimeout(saying);
  put(e, "");
  saying = setTimeout(() => { // the same words twice are said twice
    put(e, text);
    saying = setTimeout(() => put(e, ""), 15e3);
  }, 50);
}

function shell() {
  put(document.getElementById("lang-label"), t("language"));
  put(out, t("signout"));
  out.hidden = !secret;
  document.title = (chosen() ? chosen() + " · " : "") + t("page");
}

function show(...children) {
  main.replaceChildren(...children);
  shell();
}

// Signing in: the credential is proved by the first stream that it opens.

function signIn(why) {
  stop();
  secret = null;
  sessionStorage.removeItem(KEY);
  put(link, "");
  view = null;
  const input = h("input", { id: "secret", type: "password", autocomplete: "off", required: true, "aria-describedby": "where" });
  show(
    h("form", {
      class: "card signin",
      onsubmit: (e) => {
        e.preventDefault();
        const typed = input.value.trim();
        if (!/^[\x21-\x7e]+$/.test(typed)) return signIn(t("signin.letters")); // a header can't hold it, so no secret has it
        secret = typed;
        sessionStorage.setItem(KEY, secret);
        go();
      },
    },
      h("h1", {}, t("signin.title")),
      why && h("p", { class: "bad", role: "alert" }, why),
      h("label", { for: "secret" }, t("signin.secret")),
      input,
      h("p", { id: "where", class: "soft" }, t("signin.where")),
      h("div", { class: "buttons" }, h("button", { type: "submit", class: "main" }, t("signin.go"))),
    ),
  );
  input.focus();
}

// go shows what the address says, and opens the stream for it.
function go() {
  if (!secret) return signIn();
  stop();
  rows = new Map();
  const id = chosen();
  view = id ? one(id) : overview();
  let lost = false;
  stop = follow("events" + (id ? "?queue=" + encodeURIComponent(id) : ""), secret,
    (kind, data) => {
      if (kind === "rows") {
        for (const q of data.queues ?? []) rows.set(q.id, q);
        if (data.ids) for (const known of [...rows.keys()]) if (!data.ids.includes(known)) rows.delete(known);
        view?.rows();
      } else view?.[kind]?.(data);
    },
    (state, why) => {
      if (state === "live" || !lost) put(link, tOr("error." + why?.code, t("link." + state)));
      lost = state === "lost";
      link.className = state;
      main.classList.toggle("stale", lost);
    },
    (status, problem) => {
      if (status === 401 || status === 403) return signIn(problem.code === "credential_forbidden" ? t("signin.refused") : problemText(problem));
      location.hash = "";
      say(t("gone", { id }));
    });
}

// All queues.

function overview() {
  const body = h("tbody");
  const lines = new Map(); // id → {tr, cells}
  const filter = h("input", { id: "filter", type: "search", autocomplete: "off", oninput: () => paint() });
  const busy = h("input", { type: "checkbox", onchange: () => paint() });
  const none = h("p", { class: "soft" }, t("loading"));
  const sums = h("p", { class: "sums" });
  const columns = ["queue", "state", "waiting", "rate", "target", "active", "oldest", "why"];
  const numeric = { waiting: true, rate: true, target: true, active: true, oldest: true };
  show(
    h("h1", { tabindex: "-1" }, t("overview")),
    sums,
    h("div", { class: "tools" }, h("label", { for: "filter" }, t("filter"), " ", filter), h("label", {}, busy, " ", t("busy"))),
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": t("overview") },
      h("table", {},
        h("caption", { class: "unseen" }, t("overview")),
        h("thead", {}, h("tr", {}, columns.map((c) => h("th", { scope: "col", class: numeric[c] ? "num" : null }, t("col." + c))))),
        body)),
    none,
  );
  let waiting;
  function paint() {
    waiting = null;
    const wanted = filter.value.trim().toLowerCase();
    const shown = [...rows.values()].filter((q) => q.id.includes(wanted) && (!busy.checked || q.waiting > 0 || q.active > 0)).sort((a, b) => (a.id < b.id ? -1 : 1));
    const ids = new Set(shown.map((q) => q.id));
    for (const [id, line] of lines) {
      if (!ids.has(id)) {
        line.tr.remove();
        lines.delete(id);
      }
    }
    let before = null;
    for (const q of shown) {
      let line = lines.get(q.id);
      if (!line) {
        const cells = Object.fromEntries(columns.slice(1).map((c) => [c, h("td", { class: numeric[c] ? "num" : null })]));
        line = { cells, tr: h("tr", {}, h("th", { scope: "row" }, h("a", { href: "#queue=" + encodeURIComponent(q.id) }, q.id)), Object.values(cells)) };
        lines.set(q.id, line);
        if (before) before.after(line.tr);
        else body.prepend(line.tr);
      }
      before = line.tr;
      if (line.q === q) continue;
      line.q = q;
      const c = line.cells;
      const now = [q.state, q.paused, q.outage, q.trouble].join();
      if (c.state.dataset.state !== now) {
        c.state.dataset.state = now;
        c.state.replaceChildren(...badges(q), q.trouble ? h("span", { class: "badge stop" }, t("trouble")) : "");
      }
      put(c.waiting, n(q.waiting));
      put(c.rate, n(q.rate, 1));
      put(c.target, n(q.target, 3));
      put(c.active, n(q.active) + (q.maxActive ? " / " + n(q.maxActive) : ""));
      put(c.oldest, q.waiting ? span(q.oldestMs) : UNKNOWN);
      put(c.why, why(q));
    }
    const sum = (of) => { // of what is not known of one queue, no sum is known
      const all = [...rows.values()].map((q) => q[of]);
      return all.some((v) => v == null) ? null : all.reduce((s, v) => s + v, 0);
    };
    put(sums, t("sums", { queues: n(rows.size), waiting: n(sum("waiting")), rate: n(sum("rate"), 1), active: n(sum("active")) }));
    put(none, rows.size === 0 ? t("none") : shown.length === 0 ? t("nomatch") : "");
  }
  return { rows: () => (waiting ??= setTimeout(paint, 0)) };
}

// What is paused and then closed is both: nobody moves, though the state says only that nobody is taken in.
const badges = (q) => [badge(q.state), q.paused && q.state === "closed" ? badge("paused") : "", q.outage ? h("span", { class: "badge warn" }, t("outage")) : ""];
const badge = (state) => h("span", { class: "badge " + ({ open: "go", paused: "warn", closed: "warn", ended: "stop", deleting: "stop" }[state] ?? "") }, tOr("state." + state, state));
const why = (q) => (q.why ? tOr("why." + q.why, q.why) : q.rate > 0 ? t("why.none") : q.elsewhere ? t("why.elsewhere") : UNKNOWN);

// One queue.

function one(id) {
  const heading = h("h1", { tabindex: "-1" }, id);
  const states = h("span");
  const notes = h("div", { class: "notes" });
  const buttons = h("div", { class: "buttons left" });
  const tiles = {};
  const tile = (name) => {
    tiles[name] = { value: h("dd"), note: h("dd", { class: "soft" }) };
    return h("div", { class: "tile" }, h("dt", {}, t("tile." + name)), tiles[name].value, tiles[name].note);
  };
  const facts = h("dl", { class: "facts" });
  const outs = h("div");
  const changes = h("div", {}, h("p", { class: "soft" }, t("loading")));
  const plots = Object.fromEntries(["waiting", "rate", "active", "waits", "behind"].map((p) => {
    const svg = picture();
    const key = h("p", { class: "key soft" });
    return [p, { svg, key, figure: h("figure", { class: "card" }, h("figcaption", {}, h("h3", {}, t("plot." + p))), svg, key) }];
  }));
  show(
    h("p", {}, h("a", { href: "#" }, t("back"))),
    h("div", { class: "title" }, heading, states),
    notes,
    h("dl", { class: "tiles" }, ["waiting", "rate", "active", "half", "nine", "oldest", "behind"].map(tile)),
    h("section", { class: "card", "aria-labelledby": "controls" }, h("h2", { id: "controls" }, t("controls")), buttons),
    h("section", {}, h("h2", {}, t("hour")), h("p", { id: "since", class: "soft" }), h("div", { class: "plots" }, Object.values(plots).map((p) => p.figure))),
    h("section", { class: "card" }, h("h2", {}, t("leading")), facts, outs),
    h("section", { class: "card" }, h("h2", {}, t("changes")), changes),
  );

  let q, d;
  let last = { atMs: [], waiting: [], active: [], rate: [], oldestMs: [], halfMs: [], nineMs: [], behind: [] };
  let version;

  const set = (name, value, note = "") => {
    put(tiles[name].value, value);
    put(tiles[name].note, note);
  };

  function rowsChanged() {
    const was = q;
    q = rows.get(id);
    if (!q) return;
    if (was?.state !== q.state || was?.paused !== q.paused || was?.outage !== q.outage) {
      states.replaceChildren(...badges(q));
      const focused = document.activeElement?.dataset?.act;
      buttons.replaceChildren(...offered(q).map((a) => h("button", { type: "button", "data-act": a, class: a === "soldout" ? "danger" : null, onclick: () => run(a) }, t(a + ".button"))));
      if (focused) (buttons.querySelector(`[data-act=${focused}]`) ?? heading).focus();
    }
    set("waiting", n(q.waiting));
    set("rate", n(q.rate, 1), t("of.target", { target: n(q.target, 3) }));
    set("active", n(q.active), q.maxActive ? t("of.max", { max: n(q.maxActive) }) + " · " + t("active.note") : t("of.nolimit"));
    set("oldest", q.waiting ? span(q.oldestMs) : UNKNOWN);
    const said = [
      q.trouble && [tOr("trouble." + q.trouble, t("trouble.unreadable")) + " (" + q.detail + ")", "stop"],
      q.outage && [t("outage.note"), "warn"],
      q.waiting == null && [t("noline"), ""],
      q.state === "not_open" && q.opensAt && [t("opens", { at: moment(Date.parse(q.opensAt)) }), ""],
      q.reason && [t("reason", { why: tOr("reason." + q.reason, q.reason) }), ""],
      q.why && [t("nobody", { why: why(q) }), ""],
      q.elsewhere && !(q.rate > 0) && q.waiting !== 0 && [t("elsewhere"), ""],
    ].filter(Boolean);
    if (notes.dataset.said !== said.join()) {
      notes.dataset.said = said.join();
      notes.replaceChildren(...said.map(([text, cls]) => h("p", { class: "note " + cls }, text)));
    }
    if (version !== q.version) {
      version = q.version;
      recent();
    }
  }

  async function run(action) {
    try {
      const done = await act(action, id, secret);
      if (done) say(done);
    } catch (e) {
      if (e.code === "credential_forbidden" || e.code === "credential_missing") return signIn(t("signin.refused"));
      say(wrong(e));
    }
  }

  async function recent() {
    try {
      const { said } = await ask(secret, "GET", `/admin/queues/${encodeURIComponent(id)}/changes?limit=10`);
      changes.replaceChildren(said.changes.length === 0 ? h("p", { class: "soft" }, t("changes.none")) : h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": t("changes") }, h("table", {},
        h("thead", {}, h("tr", {}, ["at", "who", "action", "what"].map((c) => h("th", { scope: "col" }, t("changes." + c))))),
        h("tbody", {}, said.changes.map((c) => h("tr", {}, h("td", {}, moment(Date.parse(c.at))), h("td", {}, c.who), h("td", {}, tOr("action." + c.action, c.action)), h("td", {}, difference(c.from, c.to))))))));
    } catch (e) {
      changes.replaceChildren(h("p", { class: "soft" }, wrong(e)));
    }
  }

  function details(now) {
    d = now;
    set("half", d.halfMs == null ? UNKNOWN : span(d.halfMs));
    set("nine", d.nineMs == null ? UNKNOWN : span(d.nineMs), d.mostMs == null ? "" : t("most", { most: span(d.mostMs) }));
    set("behind", d.shared ? n(d.behind) : UNKNOWN, d.shared ? t("behind.note") : t("behind.none"));
    put(document.getElementById("since"), t("since", { at: moment(d.beganMs) }));
    const mode = q?.mode ? t("mode." + q.mode + (q.mode === "direct" && !d.shared ? ".only" : "")) : t("unknown");
    const list = [
      ["mode", mode + (d.modeSinceMs ? " · " + t("from", { at: moment(d.modeSinceMs) }) : "")],
      ["leader", d.leader ? d.leader + " · " + t("from", { at: moment(d.leaderSinceMs) }) : t("unknown")],
      ["served", n(d.served)], ["seq", n(d.seq)], ["entered", n(d.entered)], ["moved", n(d.moved)], ["admitted", n(d.admitted)],
    ];
    if (facts.children.length === 0) facts.append(...list.flatMap(([k]) => [h("dt", {}, t("fact." + k)), h("dd")]));
    list.forEach(([, v], i) => put(facts.children[2 * i + 1], v));
    const told = JSON.stringify(d.outages);
    if (outs.dataset.told !== told) {
      outs.dataset.told = told;
      outs.replaceChildren(h("h3", {}, t("outages")), d.outages.length === 0 ? h("p", { class: "soft" }, t("outages.none")) :
        h("ul", {}, [...d.outages].reverse().map((o) => h("li", {}, o.toMs ? t("outages.was", { from: moment(o.fromMs), to: moment(o.toMs), took: span(o.toMs - o.fromMs) }) : t("outages.is", { from: moment(o.fromMs) })))));
      paint();
    }
  }

  function samples(more, anew) {
    for (const k of Object.keys(last)) last[k] = [...(anew ? [] : last[k]), ...(more[k] ?? [])].slice(-720);
    paint();
  }

  function paint() {
    const shades = d?.outages ?? [];
    const line = (cls, name, of, fill) => ({ cls, name: t(name), values: last[of], fill });
    const all = {
      waiting: [[line("a", "tile.waiting", "waiting", true)], {}],
      rate: [[line("a", "tile.rate", "rate", true)], { level: q && { v: q.target } }],
      active: [[line("a", "tile.active", "active", true)], { level: q?.maxActive ? { v: q.maxActive } : undefined }],
      waits: [[line("c", "tile.oldest", "oldestMs"), line("b", "tile.nine", "nineMs"), line("a", "tile.half", "halfMs")], { times: true }],
      behind: [[line("c", "tile.behind", "behind", true)], {}],
    };
    for (const [p, [lines, more]] of Object.entries(all)) {
      plots[p].figure.hidden = p === "behind" && d && !d.shared;
      draw(plots[p].svg, t("plot." + p), last.atMs, lines, { shades, ...more });
      const keys = [...lines.map((l) => [l.cls, l.name]), ...(more.level ? [["level", t(p === "rate" ? "key.target" : "key.max")]] : []), ...(shades.length ? [["shade", t("outage")]] : [])];
      if (plots[p].key.dataset.keys !== keys.join()) {
        plots[p].key.dataset.keys = keys.join();
        plots[p].key.replaceChildren(...keys.flatMap(([cls, name]) => [h("span", { class: "swatch " + cls }), name + " "]));
      }
    }
  }

  paint();
  return { rows: rowsChanged, queue: details, history: (c) => samples(c, true), sample: samples };
}

// What a change has changed, in the words of the API and of `soonbeon queue`.
function difference(from, to) {
  if (!from || !to) return to ? "" : t("changes.gone");
  const flat = (x) => ({ ...x.settings, paused: x.paused, closed: x.closed, ending: x.ending, reason: x.reason ?? "" });
  const [a, b] = [flat(from), flat(to)];
  const word = (v) => (v == null || v === "" ? UNKNOWN : typeof v === "object" ? "…" : String(v).slice(0, 80));
  return Object.keys(b).filter((k) => JSON.stringify(a[k]) !== JSON.stringify(b[k])).map((k) => `${k}: ${word(a[k])} → ${word(b[k])}`).join(", ");
}

async function begin() {
  for (let wait = 1000; ; wait = Math.min(wait * 2, 8000)) {
    try {
      await load();
      break;
    } catch {
      // Without its words the page can say nothing but this, in all languages that there are.
      main.replaceChildren(...Object.entries(WORDLESS).map(([lang, text]) => h("p", { lang, role: "alert" }, text)));
      await new Promise((r) => setTimeout(r, wait));
    }
  }
  const select = document.getElementById("lang");
  select.append(...languages().map(([tag, name]) => h("option", { value: tag, lang: tag, selected: tag === lang }, name)));
  select.onchange = () => {
    choose(select.value);
    localStorage.setItem("soonbeon-lang", select.value);
    go();
    select.focus();
  };
  out.onclick = () => {
    secret = null;
    signIn();
  };
  window.onhashchange = () => {
    go();
    main.querySelector("h1")?.focus(); // what is read on is what was asked for
  };
  go();
}
begin();
