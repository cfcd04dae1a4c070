// A real Chromium before the waiting room of browser_test.go, which says where things are by the environment.
import { chromium } from "playwright-core";

export const ROOM = process.env.ROOM;
export const SITE = process.env.SITE;
export const OWN = process.env.OWN; // the same room with a look of its operators'
export const HERE = ROOM + "/queue/wait?queue=main";

export const PHONE = { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, isMobile: true, hasTouch: true };
export const DESKTOP = { viewport: { width: 1280, height: 800 } };

export const launch = (more = {}) => chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox", "--disable-dev-shm-usage"], ...more });

/** Changes the line, and tells what was asked of it since the last reset. */
export async function line(change = {}) {
  const res = await fetch(ROOM + "/test", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(change) });
  if (!res.ok) throw new Error("the line: " + res.status + " " + (await res.text()));
  return res.json();
}

/** Waits until what() is true, or says what it was last. */
export async function until(what, message, ms = 8000) {
  const end = Date.now() + ms;
  let last;
  for (;;) {
    try {
      last = await what();
      if (last) return last;
    } catch (e) {
      last = e;
    }
    if (Date.now() > end) throw new Error(`${message}: still ${last}`);
    await new Promise((r) => setTimeout(r, 30));
  }
}

/** What people would complain of without knowing the words: errors of scripts, and what the page's policy refused. */
export function complaints(page) {
  const list = [];
  page.on("pageerror", (e) => list.push("error: " + e.message));
  page.on("console", (m) => {
    // What a browser says of an answer of 4xx is no mistake of the page's.
    if (m.type() === "error" && !/Failed to load resource/.test(m.text())) list.push("console: " + m.text());
  });
  page.on("request", (r) => {
    const { origin, protocol } = new URL(r.url());
    if (protocol.startsWith("http") && ![ROOM, SITE, OWN].includes(origin)) list.push("asked elsewhere: " + r.url());
  });
  return list;
}

export const view = (page) => page.evaluate(() => document.getElementById("soonbeon")?.dataset.view);
export const number = (page) => page.evaluate(() => document.querySelector(".sb-number")?.textContent);
