// The controls: each says what it does to people, asks, and goes by the operators' API, which keeps a record of who did it.
import { h, put } from "./html.js";
import { moment, n, span, t, tOr } from "./words.js";

const box = document.getElementById("ask");

/** Asks the API. The error of an answer of 400 and above has its code. */
export async function ask(secret, method, path, body, etag) {
  const headers = { Authorization: "Bearer " + secret };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (etag) headers["If-Match"] = etag;
  const res = await fetch(path, { method, headers, cache: "no-store", body: body === undefined ? undefined : JSON.stringify(body) });
  const said = await res.json().catch(() => ({}));
  if (!res.ok) {
    const e = new Error(said.detail ?? said.title ?? res.statusText);
    e.code = said.code ?? "http_" + res.status;
    e.mistakes = said.mistakes; // each with the setting's name and its limit
    throw e;
  }
  return { said, etag: res.headers.get("ETag") };
}

/** What a problem document says, in the reader's language. Only of a code that this page doesn't know is the API's own text shown. */
export const problemText = (p) => {
  const known = tOr("error." + p.code, "");
  const more = p.mistakes?.join("; ") ?? (known ? "" : p.detail ?? p.message ?? p.status ?? "");
  return (known || t("error")) + (more ? " (" + more + ")" : "");
};

export const wrong = (e) => (e.code ? problemText(e) : t("error.unreachable"));

const people = (d) => (d.live ? n(d.live.waiting) : t("unknown"));
const after = (d, rate) => (d.live ? span((d.live.waiting / rate) * 1000) : t("unknown"));

// Each: whether it is offered for this queue, what it says it will do, what it asks for, and what it sends.
const actions = {
  rate: {
    offered: () => true,
    effect: (d, v) => {
      const rate = Number(v.rate);
      if (!(rate > 0)) return [t("rate.need")];
      return [
        t("rate.effect", { rate: n(rate, 3), was: n(d.settings.rate, 3) }),
        t("rate.then", { waiting: people(d), then: after(d, rate), now: after(d, d.settings.rate) }),
        d.settings.conservativeRate > rate && t("rate.conservative", { rate: n(rate, 3), was: n(d.settings.conservativeRate, 3) }),
        d.settings.maxActive > 0 && t("rate.capacity", { max: n(d.settings.maxActive) }),
      ];
    },
    fields: (d) => ({ rate: h("input", { type: "number", min: "0.001", max: "10000", step: "any", required: true, value: d.settings.rate }) }),
    send: (d, v) => ["PUT", "", { settings: { ...d.settings, rate: Number(v.rate), conservativeRate: Math.min(d.settings.conservativeRate, Number(v.rate)) } }],
  },
  pause: {
    offered: (q) => !q.paused && !["ended", "deleting"].includes(q.state),
    effect: (d) => [t("pause.effect"), t("pause.people", { waiting: people(d) })],
    fields: (d) => ({ message: h("textarea", { maxlength: "500", rows: "3" }, d.settings.message) }),
    send: (d, v) => ["POST", "/pause", message(d, v)],
  },
  resume: {
    offered: (q) => q.paused || ["ended", "closed"].includes(q.state),
    effect: (d) => [
      d.paused && t("resume.paused", { rate: n(d.settings.rate, 3) }),
      d.closed && !d.ending && t("resume.closed"),
      d.ending && t("resume.ended"),
      d.settings.closesAt && Date.parse(d.settings.closesAt) < Date.now() && t("resume.past", { at: moment(Date.parse(d.settings.closesAt)) }),
    ],
    fields: (d) => ({ message: h("textarea", { maxlength: "500", rows: "3" }, d.settings.message) }),
    send: (d, v) => ["POST", "/resume", message(d, v)],
  },
  close: {
    offered: (q) => !["closed", "ended", "deleting"].includes(q.state),
    effect: (d) => [t("close.effect"), t("close.people", { waiting: people(d), rate: n(d.settings.rate, 3) }), d.paused && t("close.paused")],
    fields: () => ({}),
    send: () => ["POST", "/close", { reason: "closed", ending: false }],
  },
  soldout: {
    offered: (q) => !["ended", "deleting"].includes(q.state),
    effect: (d) => [t("soldout.effect"), t("soldout.people", { waiting: people(d) }), t("soldout.inside")],
    fields: () => ({ name: h("input", { autocomplete: "off", spellcheck: "false", required: true }) }),
    ready: (d, v) => v.name.trim() === d.id,
    send: () => ["POST", "/close", { reason: "sold_out", ending: true }],
  },
};

// A message that was not touched stays as it is.
const message = (d, v) => (v.message === d.settings.message ? {} : { message: v.message });

export const offered = (q) => Object.keys(actions).filter((a) => q.state !== "deleting" && actions[a].offered(q));

/** Opens the dialog for an action on queue id. Resolves to what was done, as text; null where nothing was. */
export async function act(name, id, secret) {
  const path = "/admin/queues/" + encodeURIComponent(id);
  const { said: d, etag } = await ask(secret, "GET", path); // as it is now, and not as it was a second ago
  const a = actions[name];
  const fields = a.fields(d);
  const values = () => Object.fromEntries(Object.entries(fields).map(([k, e]) => [k, e.value]));
  Object.values(fields)[0]?.setAttribute("autofocus", "");
  const effect = h("div", { id: "ask-effect", "aria-live": "polite" });
  const failed = h("p", { class: "bad", role: "alert" });
  const yes = h("button", { type: "submit", class: name === "soldout" ? "danger" : "main" }, t(name + ".yes"));
  const no = h("button", { type: "button", autofocus: Object.keys(fields).length === 0, onclick: () => box.close() }, t("cancel"));
  const refresh = () => {
    const said = a.effect(d, values()).filter(Boolean);
    if (said.join() !== [...effect.children].map((p) => p.textContent).join()) effect.replaceChildren(...said.map((s) => h("p", {}, s)));
    yes.disabled = a.ready ? !a.ready(d, values()) : false;
  };
  return new Promise((resolve) => {
    let done = null;
    const form = h("form", {
      method: "dialog",
      oninput: refresh,
      onsubmit: async (e) => {
        e.preventDefault();
        if (yes.disabled) return;
        yes.disabled = true;
        put(failed, "");
        try {
          const [method, rest, body] = a.send(d, values());
          await ask(secret, method, path + rest, body, etag);
          done = t(name + ".done", { id });
          box.close();
        } catch (e) {
          put(failed, wrong(e));
          yes.disabled = e.code === "queue_changed"; // what was read before is not so any more
        }
      },
    },
      h("h2", { id: "ask-title" }, t(name + ".ask", { id })),
      effect,
      Object.entries(fields).map(([k, e]) => h("label", { class: "field" }, h("span", {}, t(`${name}.${k}`, { id })), e)),
      h("p", { class: "soft" }, t("recorded")),
      failed,
      h("div", { class: "buttons" }, no, yes),
    );
    box.replaceChildren(form);
    refresh();
    box.onclose = () => {
      box.replaceChildren();
      resolve(done);
    };
    box.showModal();
  });
}
