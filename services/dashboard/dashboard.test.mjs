// A real Chromium before the dashboard of browser_test.go, which says where things are by the environment. The tests are one story, in order.
import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { after, afterEach, before, test } from "node:test";

const { DASHBOARD, SECRET, CHROMIUM, TOOLS, SHOTS } = process.env;
const tools = createRequire(resolve(TOOLS, "package.json"));
const { chromium } = tools("playwright-core");
const axe = readFileSync(tools.resolve("axe-core/axe.min.js"), "utf8");
const API = new URL("/admin/queues/main", DASHBOARD).href;

let browser;
let page;
let wrong = [];
const requests = [];
before(async () => {
  browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
  page = await open({ viewport: { width: 1280, height: 900 }, locale: "en-US" });
});
after(() => browser?.close());
afterEach(() => assert.deepEqual(wrong.splice(0), []));

async function open(options) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  page.setDefaultTimeout(10e3);
  page.on("pageerror", (e) => wrong.push("error: " + e.message));
  page.on("console", (m) => m.type() === "error" && !/Failed to load resource/.test(m.text()) && wrong.push("console: " + m.text()));
  page.on("request", (r) => {
    requests.push(r);
    const { protocol, origin, search } = new URL(r.url());
    if (protocol.startsWith("http") && origin !== new URL(DASHBOARD).origin) wrong.push("asked elsewhere: " + r.url());
    if (search.includes(SECRET) || (r.headers().cookie ?? "").includes(SECRET)) wrong.push("the secret in an address or a cookie");
  });
  return page;
}

async function until(what, message, ms = 10e3) {
  const end = Date.now() + ms;
  for (;;) {
    const last = await what();
    if (last) return last;
    if (Date.now() > end) throw new Error(`${message}: still ${last}`);
    await new Promise((r) => setTimeout(r, 50));
  }
}

const text = () => page.evaluate(() => document.body.innerText);
const has = (part) => until(async () => (await text()).includes(part), part);
const asked = () => page.evaluate(() => document.getElementById("ask").innerText);
const queue = async () => (await fetch(API, { headers: { Authorization: "Bearer " + SECRET } })).json();

async function sound(at) {
  await page.evaluate(axe); // by the debugger, which no policy keeps out
  const found = await page.evaluate(async () => {
    const { violations } = await window.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] });
    return violations.map((v) => `${v.impact} ${v.id}: ${v.nodes.map((n) => n.target + " " + n.failureSummary).join("; ")}`);
  });
  assert.deepEqual(found, [], at);
  const seen = await page.evaluate(() => ({ text: document.body.innerText, wide: document.documentElement.scrollWidth > document.documentElement.clientWidth }));
  assert.doesNotMatch(seen.text, /[{}]|undefined|NaN|null|\[object/, at);
  assert.equal(seen.wide, false, at + ": wider than the screen");
  if (SHOTS) {
    mkdirSync(SHOTS, { recursive: true });
    await page.screenshot({ path: join(SHOTS, at + ".png"), fullPage: true });
  }
}

async function signIn(secret = SECRET) {
  await page.fill("#secret", secret);
  await page.keyboard.press("Enter");
}

/** Opens a control's dialog, and presses the button that does it. */
async function control(name) {
  await page.click(`[data-act=${name}]`);
  await page.waitForSelector("#ask[open]");
}
async function confirm() {
  await page.click("#ask button[type=submit]");
  await page.waitForSelector("#ask:not([open])", { state: "attached" });
}

/** The last change, as the page shows it. */
const recorded = (what) => until(async () => {
  const row = page.locator("section:last-of-type tbody tr").first();
  return (await row.count()) && what.test(await row.innerText());
}, String(what));

test("only with an operator's secret, which stays in this tab", async () => {
  await page.goto(DASHBOARD);
  await page.waitForSelector("#secret");
  await sound("sign-in");
  await signIn("x".repeat(40));
  await has("This secret is not accepted");
  assert.equal(await page.evaluate(() => sessionStorage.length), 0);
  await signIn("비밀키");
  await has("no letters but those of ASCII");
  await signIn();
  await has("Live");
  assert.equal(await page.evaluate(() => JSON.stringify(localStorage) + document.cookie), "{}");
  assert.ok(requests.some((r) => r.url().endsWith("/events") && r.headers().authorization === "Bearer " + SECRET));
});

test("all queues at a glance", async () => {
  await has("7,412");
  await has("nobody waits");
  assert.match(await text(), /2 queues · 7,412 waiting/);
  await sound("overview-en");
  await page.fill("#filter", "sec");
  await until(async () => (await page.locator("tbody tr").count()) === 1, "one fits");
  await page.fill("#filter", "");
  await page.check("input[type=checkbox]");
  await until(async () => (await page.locator("tbody tr").count()) === 1, "one has people");
  await page.uncheck("input[type=checkbox]");
});

test("what is not known here is no 0, and no reason", async () => {
  await fetch(new URL("/test/lose", DASHBOARD), { method: "POST" });
  await has("not known here: this process does not lead it");
  await has("2 queues · – waiting · 15");
  assert.doesNotMatch(await text(), /Nobody is let in|0 waiting/);
  await page.click("a[href='#queue=second']");
  await has("This process does not lead this queue.");
  await has("does not keep the line");
  assert.doesNotMatch(await text(), /Nobody is let in/);
  await page.goBack();
  await fetch(new URL("/test/find", DASHBOARD), { method: "POST" });
  await has("nobody waits");
  await has("7,412 waiting");
});

test("an address that nobody made", async () => {
  await page.evaluate(() => (location.hash = "#queue=%"));
  await has("There is no queue %.");
  await page.waitForSelector("a[href='#queue=main']");
});

test("a page without its words says so, and finds them", async () => {
  const one = await page.context().newPage();
  await one.route("**/words.json", (r) => r.fulfill({ status: 503, body: "{}" }));
  await one.goto(DASHBOARD);
  const body = () => one.evaluate(() => document.body.innerText);
  await until(async () => /does not answer.*\n+.*응답하지 않습니다/.test(await body()), "both languages");
  await one.unroute("**/words.json");
  await one.waitForSelector("#secret");
  await one.close();
});

test("one queue closely", async () => {
  await page.click("a[href='#queue=main']");
  await until(async () => (await page.evaluate(() => document.activeElement.textContent)) === "main", "the heading is read");
  await has("150");
  await has("10\nrecords");
  await until(async () => (await page.locator("svg path.line").count()) >= 6, "plots");
  assert.match(await page.getAttribute("figure svg", "aria-label"), /Waiting: now 7,412, at most 7,412/);
  await has("from Redis · since");
  await until(async () => (await text()).includes("setup"), "who made it");
  await sound("queue-en");
  await page.emulateMedia({ colorScheme: "dark" });
  await sound("queue-dark");
  await page.emulateMedia({ colorScheme: "light" });
});

test("the rate, with its effect in words, and nothing without a yes", async () => {
  await control("rate");
  assert.equal(await page.evaluate(() => document.activeElement.type), "number");
  await page.fill("#ask input", "50");
  assert.match(await asked(), /At most 50 people a second are let in, instead of 175/);
  assert.match(await asked(), /7,412. The last of them gets in after about 2 min 28 sec, instead of 42 sec/);
  assert.match(await asked(), /at 50 a second instead of 120/);
  await sound("rate-en");
  await page.keyboard.press("Escape");
  await page.waitForSelector("#ask:not([open])", { state: "attached" });
  assert.equal((await queue()).settings.rate, 175);
  assert.equal(await page.evaluate(() => document.activeElement.dataset.act), "rate", "back where it was");
  await control("rate");
  await page.fill("#ask input", "50");
  await confirm();
  await has("The rate of main has been changed");
  await has("of 50");
  assert.equal((await queue()).settings.conservativeRate, 50);
  await has("rate: 175 → 50");
});

test("somebody else was faster", async () => {
  await control("pause");
  const now = await queue();
  const res = await fetch(API, {
    method: "PUT",
    headers: { Authorization: "Bearer " + process.env.BOB, "Content-Type": "application/json", "If-Match": `"${now.version}"` },
    body: JSON.stringify({ settings: { ...now.settings, maxActive: 5000 } }),
  });
  assert.equal(res.status, 200);
  await page.click("#ask button[type=submit]");
  await until(async () => /Somebody else has changed this queue/.test(await asked()), "it is told");
  await page.keyboard.press("Escape");
  assert.equal((await queue()).state, "open");
  await has("of 5,000 at most");
});

test("pause with a message, resume, close, in Korean", async () => {
  await page.selectOption("#lang", "ko");
  await has("다음 차례가 기다린 시간");
  await sound("queue-ko");
  await control("pause");
  await page.route("**/pause", (r) => r.fulfill({ status: 503, contentType: "application/problem+json", body: '{"code":"log_trouble","detail":"in English"}' }));
  await page.click("#ask button[type=submit]");
  await until(async () => /운영자의 판단이 필요합니다/.test(await asked()), "it is told in Korean");
  assert.doesNotMatch(await asked(), /in English/);
  await page.unroute("**/pause");
  await page.fill("#ask textarea", "곧 다시 시작합니다");
  assert.match(await asked(), /대기 7,412명/);
  await sound("pause-ko");
  await confirm();
  await has("main의 입장을 멈추었습니다");
  await until(async () => (await page.locator("[data-act=pause]").count()) === 0, "no second pause");
  assert.equal((await queue()).settings.message, "곧 다시 시작합니다");
  await recorded(/anna\s+일시 정지\s+.*message: – → 곧 다시 시작합니다.*paused: false → true/s);
  await control("resume");
  await confirm();
  await until(async () => (await queue()).state === "open", "open");
  await page.waitForSelector("[data-act=close]");
  await control("close");
  await confirm();
  await until(async () => (await queue()).state === "closed", "closed");
  await recorded(/anna\s+마감\s+.*closed: false → true/s);
  await page.waitForSelector("[data-act=resume]");
  await control("resume");
  assert.match(await asked(), /다시 줄을 설 수 있습니다/);
  await confirm();
  await until(async () => (await queue()).state === "open", "open");
});

test("closed and paused are both seen", async () => {
  await page.waitForSelector("[data-act=close]");
  await control("close");
  await confirm();
  await page.waitForSelector("[data-act=close]", { state: "detached" });
  await control("pause");
  await confirm();
  const title = () => page.evaluate(() => document.querySelector(".title").innerText);
  await until(async () => /접수 마감\s*일시 정지/.test(await title()), "two badges");
  assert.equal(await page.locator("[data-act=pause]").count(), 0);
  await control("resume");
  await confirm();
  await until(async () => (await queue()).state === "open" && !(await queue()).paused, "open");
});

test("an outage is seen", async () => {
  await fetch(new URL("/test/break", DASHBOARD), { method: "POST" });
  await has("Redis에 장애가 있습니다");
  await has("계속되고 있음");
  await sound("outage-ko");
});

test("sold out takes the queue's name", async () => {
  await page.selectOption("#lang", "en");
  await page.waitForSelector("[data-act=soldout]");
  await control("soldout");
  assert.match(await asked(), /They lose their places, for good/);
  assert.equal(await page.isDisabled("#ask button[type=submit]"), true);
  await page.fill("#ask input", "second");
  await page.keyboard.press("Enter");
  assert.equal((await queue()).state, "open");
  await page.fill("#ask input", "main");
  await sound("soldout-en");
  await confirm();
  await has("main has ended as sold out");
  await has("Closed, with the reason: sold out");
  await recorded(/anna\s+closed\s+.*closed: false → true.*ending: false → true.*reason: – → sold_out/s);
});

test("on a phone", async () => {
  page = await open({ viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, isMobile: true, hasTouch: true, locale: "ko-KR", colorScheme: "dark" });
  await page.goto(DASHBOARD + "#queue=main");
  await signIn();
  await has("실시간");
  await has("7,412");
  await sound("phone-queue-ko");
  await page.click("text=← 전체 대기열");
  await has("대기열 2개");
  await sound("phone-overview-ko");
  await page.goto(DASHBOARD + "#queue=nobodys");
  await has("nobodys 대기열이 없습니다");
  await page.click("#out");
  await page.waitForSelector("#secret");
  assert.equal(await page.evaluate(() => sessionStorage.length), 0);
});
