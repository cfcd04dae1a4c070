// Every state of the page, in every language, on a phone and on a desktop: readable, accessible, and asking nobody else.
import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { complaints, DESKTOP, launch, PHONE, ROOM } from "./room.mjs";
import { sheet } from "./sheet.mjs";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
let browser;
before(async () => (browser = await launch()));
after(() => browser?.close());

async function links() {
  const html = await (await fetch(ROOM + "/queue/preview")).text();
  return [...html.matchAll(/href="(\?state=([a-z_]+)&amp;lang=([\w-]+))"/g)].map(([, query, state, lang]) => ({
    url: ROOM + "/queue/preview" + query.replace("&amp;", "&"),
    state,
    lang,
  }));
}

for (const [device, size, scheme] of [
  ["phone", PHONE, "light"],
  ["desktop", DESKTOP, "dark"],
]) {
  test(`every state on a ${device}, ${scheme}`, async () => {
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
      if (state === "not_entered") assert.doesNotMatch(seen.text, /place is kept|순서는 유지/, at);
      assert.equal(seen.wide, false, at + ": wider than the screen");
      assert.deepEqual(seen.small, [], at + ": too small for a finger");
      await page.evaluate(axe); // by the debugger, which no policy keeps out
      const found = await page.evaluate(async () => {
        const { violations } = await window.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] });
        return violations.map((v) => `${v.impact} ${v.id}: ${v.nodes.map((n) => n.target + " " + n.failureSummary).join("; ")}`);
      });
      assert.deepEqual(found, [], at);
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
  const context = await browser.newContext({ ...PHONE, reducedMotion: "reduce" });
  const page = await context.newPage();
  await page.goto(ROOM + "/queue/preview?state=waiting");
  const moving = await page.evaluate(() => [...document.querySelectorAll("*")].filter((e) => {
    const s = getComputedStyle(e);
    return parseFloat(s.transitionDuration) > 0 || s.animationName !== "none";
  }).length);
  assert.equal(moving, 0);
  await context.close();
});
