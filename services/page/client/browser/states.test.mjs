// Every state of the page, in every language, on a phone and on a desktop: readable, accessible, and asking nobody else.
import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { complaints, DESKTOP, launch, OWN, PHONE, ROOM } from "./room.mjs";
import { sheet } from "./sheet.mjs";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
let browser;
before(async () => (browser = await launch()));
after(() => browser?.close());

async function links(room = ROOM) {
  const html = await (await fetch(room + "/queue/preview")).text();
  return [...html.matchAll(/href="(\?state=([a-z_]+)&amp;lang=([\w-]+))"/g)].map(([, query, state, lang]) => ({
    url: room + "/queue/preview" + query.replace("&amp;", "&"),
    state,
    lang,
  }));
}

const everything = { type: "tag", values: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] };
const colours = { type: "rule", values: ["color-contrast"] };

/** What axe finds on the page. It comes by the debugger, which no policy keeps out. */
async function faults(page, runOnly) {
  if (!(await page.evaluate(() => !!window.axe))) await page.evaluate(axe);
  return page.evaluate(async (runOnly) => {
    const { violations } = await window.axe.run(document, { runOnly, resultTypes: ["violations"] });
    return violations.map((v) => `${v.impact} ${v.id}: ${v.nodes.map((n) => n.target + " " + n.failureSummary).join("; ")}`);
  }, runOnly);
}

for (const [device, size, scheme, other] of [
  ["phone", PHONE, "light", "dark"],
  ["desktop", DESKTOP, "dark", "light"],
]) {
  test(`every state on a ${device}, ${scheme} and ${other}`, async () => {
    const context = await browser.newContext({ ...size, colorScheme: scheme, bypassCSP: false });
    const page = await context.newPage();
    const wrong = complaints(page);
    const shots = {};
    const all = await links();
    assert.ok(all.length > 50, String(all.length));
    for (const { url, state, lang } of all) {
      const at = `${state}, ${lang}, ${device}`;
      await page.goto(url);
      const seen = await page.evaluate(() => ({
        lang: document.documentElement.lang,
        title: document.title,
        h1: document.querySelector("h1").innerText,
        text: document.body.innerText,
        wide: document.documentElement.scrollWidth > document.documentElement.clientWidth,
        small: [...document.querySelectorAll("button,a.sb-button")].filter((b) => b.offsetHeight && b.offsetHeight < 44).map((b) => b.innerText),
      }));
      assert.equal(seen.lang, lang, at);
      assert.ok(seen.title && seen.h1, at);
      assert.doesNotMatch(seen.text, /[{}]|undefined|NaN|null|\[object/, at);
      if (lang === "ko") assert.match(seen.h1, /[가-힣]/, at);
      if (lang === "ko") assert.doesNotMatch(seen.text, /\d(st|nd|rd|th|d|h|m|s)\b/, at);
      if (state === "not_entered") assert.doesNotMatch(seen.text, /place is kept|순서는 유지/, at);
      assert.equal(seen.wide, false, at + ": wider than the screen");
      assert.deepEqual(seen.small, [], at + ": too small for a finger");
      assert.deepEqual(await faults(page, everything), [], at);
      if (lang === "en") { // colours do not depend on it
        await page.emulateMedia({ colorScheme: other });
        assert.deepEqual(await faults(page, colours), [], `${at}, ${other}`);
        await page.emulateMedia({ colorScheme: scheme });
      }
      assert.deepEqual(wrong, [], at);
      if (process.env.SHOTS) {
        mkdirSync(process.env.SHOTS, { recursive: true });
        const png = await page.screenshot({ path: join(process.env.SHOTS, `${state}-${lang}-${device}.png`) });
        (shots[lang] ??= []).push({ name: state, png });
      }
    }
    for (const lang in shots)
      await sheet(browser, join(process.env.SHOTS, `states-${lang}-${device}.jpg`), shots[lang], device === "phone" ? { width: 180, columns: 11 } : { width: 300, columns: 7 });
    await context.close();
  });
}

test("nothing moves for who wants that", async () => {
  const page = await browser.newPage();
  await page.goto(ROOM + "/queue/preview?state=waiting");
  // The rules, since what moves may be a part of an element, which no script can look at.
  const moving = await page.evaluate(() => {
    const found = { always: [], byLeave: [] };
    const walk = (rules, leave) => {
      for (const rule of rules) {
        const s = rule.style;
        if (s && (parseFloat(s.transitionDuration) > 0 || (s.animationName && s.animationName !== "none") || s.scrollBehavior === "smooth")) (leave ? found.byLeave : found.always).push(rule.cssText);
        if (rule.cssRules) walk(rule.cssRules, leave || /prefers-reduced-motion:\s*no-preference/.test(rule.conditionText ?? ""));
      }
    };
    for (const sheet of document.styleSheets) walk(sheet.cssRules, false);
    return found;
  });
  assert.deepEqual(moving.always, []);
  assert.equal(moving.byLeave.length, 1, "the bar, for everybody else");
  await page.close();
});

test("the operators' own look", async () => {
  const page = await browser.newPage({ ...PHONE, locale: "en-US" });
  const wrong = complaints(page);
  const states = (await links(OWN)).filter(({ state, lang }) => lang === "en" && ["waiting", "turn", "plain_waiting", "unknown"].includes(state));
  assert.equal(states.length, 4);
  for (const { url, state } of states) {
    await page.goto(url);
    assert.equal(await page.evaluate(() => document.querySelector("header img").naturalWidth), 120, state + ": the logo is there");
    assert.equal(await page.evaluate(() => getComputedStyle(document.querySelector("header")).backgroundColor), "rgb(0, 51, 34)", state + ": and the style");
    assert.ok(await page.isVisible("h1"));
    assert.deepEqual(await faults(page, everything), [], state);
  }
  await page.goto(OWN + "/queue/wait?queue=main"); // and its script runs
  await page.waitForSelector("[data-view=waiting]");
  assert.deepEqual(wrong, []);
  await page.close();
});
