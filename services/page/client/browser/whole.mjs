// What one person lives through, with everything in earnest: services/e2e/browser_test.go says what stands where.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { complaints, HERE, launch, number, PHONE, ROOM, SITE, until, view } from "./room.mjs";

const { ADMIN, OPERATOR } = process.env;
const operator = (method, path, body, more = {}, queue = "/main") =>
  fetch(ADMIN + "/admin/queues" + queue + path, {
    method,
    headers: { Authorization: "Bearer " + OPERATOR, "Content-Type": "application/json", ...more },
    ...(body && { body: JSON.stringify(body) }),
  });

async function settings(s) {
  const before = await operator("GET", "");
  const res = await operator("PUT", "", { settings: s }, { "If-Match": before.headers.get("ETag") });
  assert.equal(res.status, 200, await res.text());
}

async function crowd(n, queue = "main") {
  const one = async () => {
    const res = await fetch(ROOM + "/queue/enter", {
      method: "POST",
      headers: { "Content-Type": "application/json", "Idempotency-Key": crypto.randomUUID() },
      body: JSON.stringify({ queue }),
    });
    assert.equal(res.status, 202);
    await res.json();
  };
  for (let i = 0; i < n; i += 20) await Promise.all(Array.from({ length: Math.min(20, n - i) }, one));
}

let browser;
before(async () => (browser = await launch()));
after(() => browser?.close());

const place = (text) => Number(text?.replace(/\D/g, ""));

test("from the shop into the line, through a pause and a reload, and back into the shop", async () => {
  await settings({ rate: 0.001, interval: "100ms" });
  await crowd(300);
  const context = await browser.newContext({ ...PHONE, locale: "ko-KR" });
  const page = await context.newPage();
  const wrong = complaints(page);
  const asked = [];
  page.on("request", (r) => asked.push(r.method() + " " + new URL(r.url()).pathname));
  const wanted = SITE + "/%EA%B3%B5%EC%97%B0/7?a=1+2&b=%23#%EC%9E%90%EB%A6%AC";
  await page.goto(wanted);
  await until(() => page.url().startsWith(ROOM + "/queue/wait?"), "into the line");
  await until(async () => place(await number(page)) >= 300, "a place", 15000);
  const first = place(await number(page));

  await operator("POST", "/pause", { message: "잠시 점검 중입니다" });
  await until(async () => (await view(page)) === "paused", "the pause is told", 20000);
  assert.match(await page.innerText(".sb-message"), /점검/);
  await operator("POST", "/resume", {});

  await crowd(20);
  await page.reload();
  await until(async () => place(await number(page)) > first, "the reload moved back", 20000);
  assert.equal(asked.filter((a) => a === "POST /queue/enter").length, 2);

  let last = Infinity;
  await settings({ rate: 40, interval: "100ms" });
  await until(async () => {
    const now = place(await number(page)) || last;
    assert.ok(now <= last, `the number rose from ${last} to ${now}`);
    last = now;
    return asked.includes("GET /queue/events");
  }, "a stream near the front", 40000);
  await until(() => page.url().startsWith(SITE), "its turn", 40000);
  await page.waitForSelector("#in");
  assert.equal(decodeURI(page.url()), decodeURI(wanted));
  assert.match(await page.textContent("#in"), /^ticket \d+$/);
  await page.goto(SITE + "/other");
  await page.waitForSelector("#in"); // the gate's session lets in from here on
  assert.deepEqual(wrong, []);
  await context.close();
});

test("the same without JavaScript", async () => {
  await settings({ rate: 0.001, interval: "100ms" });
  await crowd(40);
  const context = await browser.newContext({ ...PHONE, locale: "en-US", javaScriptEnabled: false });
  const page = await context.newPage();
  await page.goto(SITE + "/buy?a=1+2");
  await page.waitForURL(/plain=1/);
  await page.click("text=Take a place in line");
  await page.waitForSelector(".sb-number", { timeout: 20000 });
  await settings({ rate: 40, interval: "100ms" });
  await page.click("text=Go in now", { timeout: 40000 });
  await page.waitForSelector("#in");
  assert.equal(page.url(), SITE + "/buy?a=1+2");
  await context.close();
});

test("a draw: before it nobody has a place and a reload costs nothing, and after it everybody has the one that was drawn", async () => {
  const opens = Date.now() + 12_000;
  const made = await operator("POST", "", { id: "lots", settings: { order: "draw", opensAt: new Date(opens).toISOString(), rate: 0.001, interval: "100ms" } }, {}, "");
  assert.equal(made.status, 201, await made.text());
  const here = HERE.replace("queue=main", "queue=lots");
  await until(async () => (await fetch(here)).status === 200, "the page of the new queue");
  const context = await browser.newContext({ ...PHONE, locale: "en-US" });
  const page = await context.newPage();
  const wrong = complaints(page);
  const text = () => page.innerText("#soonbeon");
  await page.addInitScript(() => {
    window.views = [];
    new MutationObserver((all) => all.forEach(() => window.views.push(document.getElementById("soonbeon").dataset.view))).observe(document, { subtree: true, attributes: true, attributeFilter: ["data-view"] });
  });
  await page.goto(here);
  await until(async () => (await view(page)) === "draw" && /opens in 0:\d\d/.test(await text()), "the draw is told, and counted down to");
  assert.deepEqual(await page.evaluate(() => [...new Set(window.views)]), ["draw"], "from the first answer on: nothing else was said in between");
  const [, first] = /opens in 0:(\d\d)/.exec(await text());
  assert.match(await text(), /Reloading this page costs nothing/);
  assert.doesNotMatch(await text(), /Don't reload|end of the line/);
  await crowd(30, "lots");
  await page.reload();
  await until(async () => (await view(page)) === "draw" && /opens in 0:\d\d/.test(await text()), "the same after a reload");
  assert.ok(Number(/opens in 0:(\d\d)/.exec(await text())[1]) <= Number(first), "the countdown goes on");
  assert.ok(Date.now() < opens, "all of this was before the opening");
  assert.doesNotMatch(await text(), /went to the end/);
  assert.equal(await number(page), "");
  await until(async () => place(await number(page)) > 0, "a place, drawn", opens - Date.now() + 20_000);
  assert.ok(Date.now() >= opens);
  assert.match(await text(), /now serving \d+ · your number \d/);
  assert.match(await text(), /Don't reload this page: you would give up place \d+/, "from now on it costs one");
  const drawn = place(await number(page));
  assert.ok(drawn <= 31, String(drawn));
  await page.goto(here + "&lang=ko"); // no reload
  await until(async () => place(await number(page)) === drawn, "and it stays", 15_000);
  assert.deepEqual(wrong, []);
  await context.close();
});

test("sold out is said to who waits, and to who comes", async () => {
  await settings({ rate: 0.001, interval: "100ms" });
  await crowd(20);
  const context = await browser.newContext({ ...PHONE, locale: "en-US" });
  const page = await context.newPage();
  await page.goto(HERE);
  await until(async () => (await number(page)) !== "", "a place", 20000);
  const res = await operator("POST", "/close", { reason: "sold_out", ending: true });
  assert.ok(res.ok, await res.text());
  await until(async () => (await view(page)) === "sold_out", "who waits is told", 30000);
  const late = await (await browser.newContext({ locale: "en-US" })).newPage();
  await late.goto(HERE);
  await until(async () => (await view(late)) === "sold_out", "who comes is told");
  await context.close();
});
