// What people do on the waiting page.
import assert from "node:assert/strict";
import { after, afterEach, before, beforeEach, test } from "node:test";
import { complaints, HERE, launch, line, number, PHONE, ROOM, SITE, until, view } from "./room.mjs";

let browser;
let context;
let page;
let wrong;
before(async () => (browser = await launch()));
after(() => browser?.close());
beforeEach(async () => {
  await line({ reset: true, Last: 500, RetryMs: 300 });
  await open({});
});
afterEach(async () => {
  assert.deepEqual(wrong, []);
  await context.close();
});

async function open(more) {
  await context?.close();
  context = await browser.newContext({ ...PHONE, locale: "en-US", ...more });
  page = await context.newPage();
  wrong = complaints(page);
}

const entered = async () => (await line()).count.entered ?? 0;
const asked = async () => (await line()).count.position ?? 0;
const shows = (n) => until(async () => (await number(page)) === n, "the place shows " + n);
const text = (page) => page.evaluate(() => document.body.innerText);

test("from the door to the site, and back to where they were going", async () => {
  const wanted = SITE + "/결제/의자?품목=1+2&x=%23a&y=b%2Fc#자리";
  await page.goto(wanted);
  await until(() => page.url().startsWith(ROOM + "/queue/wait?"), "the gate sends into the line");
  await shows("501st");
  const bar = () => page.evaluate(() => document.querySelector("progress").value);
  let gone = await bar();
  const gaps = [];
  for (const served of [50, 120, 300, 390]) {
    await line({ Served: served });
    await until(async () => (await number(page))?.startsWith(String(501 - served)), "place " + (501 - served));
    const now = await bar();
    gaps.push(now - gone);
    gone = now;
  }
  assert.ok(gaps.every((g) => g > 0), String(gaps));
  await line({ Served: 401 }); // 100 in front and itself
  await until(async () => (await line()).count.events === 1, "a stream near the front");
  const polls = await asked();
  await line({ Served: 480 });
  await shows("21st");
  await line({ Served: 499 });
  await shows("2nd");
  assert.equal(await asked(), polls, "no poll beside the stream");
  assert.match(await page.title(), /2nd in line/);
  await line({ Served: 501 });
  await until(async () => (await page.title()) === "Your turn! Go in now", "the title tells");
  assert.match(await text(page), /The way stays open for (1:00|0:5\d)/);
  await until(() => page.url().startsWith(SITE), "goes there by itself");
  await page.waitForSelector("#in");
  assert.equal(await page.textContent("#in"), "in with ticket 501");
  assert.equal(decodeURIComponent(new URL(page.url()).pathname), "/결제/의자");
  assert.equal(new URL(page.url()).search, new URL(wanted).search);
  assert.equal(decodeURIComponent(new URL(page.url()).hash), "#자리");
  assert.equal(await entered(), 1);
});

test("a stream that breaks is followed by polls, and comes back", async () => {
  await line({ Last: 50 });
  await page.goto(HERE);
  await until(async () => (await line()).count.events === 1, "a stream");
  const polls = await asked();
  await line({ NoStreams: true });
  await until(async () => (await asked()) > polls + 1, "polls");
  await line({ NoStreams: false });
  await until(async () => (await line()).count.events > 1, "a stream again", 15000);
  assert.equal(await entered(), 1);
});

test("a reload moves back, and the page says so before and after", async () => {
  await page.goto(HERE);
  await shows("501st");
  await line({ Last: 700, Served: 200 });
  await shows("301st");
  assert.match(await text(page), /Don't reload this page: you would give up place 301 and go to the end of the line/);
  await page.reload();
  await shows("501st");
  assert.match(await text(page), /you went to the end of the line. Before, you had place 301/);
  assert.equal(await entered(), 2);
});

test("the keys that reload are asked about", async () => {
  await open({ isMobile: false });
  await page.goto(HERE);
  await shows("501st");
  await line({ Last: 600 });
  for (const key of ["F5", "Control+r"]) {
    await page.keyboard.press(key);
    await page.waitForSelector("#sb-ask[open]");
    assert.match(await page.textContent("#sb-question"), /You have place 501 now/);
    await page.keyboard.press(key === "F5" ? "Escape" : "Enter"); // Stay has the focus
    await page.waitForSelector("#sb-ask:not([open])", { state: "attached" });
  }
  assert.equal(await entered(), 1);
  await page.keyboard.press("F5");
  await page.click("#sb-ask button[value=yes]");
  await shows("601st");
  assert.equal(await entered(), 2);
});

test("with the rule keep nothing is lost by a reload", async () => {
  await line({ Rule: "keep" });
  await page.goto(HERE);
  await shows("501st");
  assert.match(await text(page), /Your place is kept, also when you reload/);
  await line({ Last: 900 });
  await page.reload();
  await shows("501st");
  await page.reload();
  await shows("501st");
  assert.equal(await entered(), 1);
});

test("back and forward keep the place", async () => {
  await page.goto(HERE);
  await shows("501st");
  await line({ Last: 900, Served: 100 });
  await page.goto(ROOM + "/queue/preview");
  await page.goBack();
  await shows("401st");
  await page.goForward();
  await page.goBack();
  await shows("401st");
  await page.click("footer a[hreflang=ko]"); // another language is no refresh
  await until(async () => (await number(page)) === "401번째", "in Korean");
  assert.equal(await entered(), 1);
});

test("fault 7: a tab that the browser threw away and loads again keeps the place", async () => {
  await page.goto(HERE);
  await shows("501st");
  await line({ Last: 900, Served: 100 });
  // What a discarded tab finds when it is loaded again: a load of the kind "reload", and the mark that it was discarded.
  await page.addInitScript(() => Object.defineProperty(document, "wasDiscarded", { get: () => true }));
  await page.reload();
  await shows("401st");
  assert.equal(await page.evaluate(() => performance.getEntriesByType("navigation")[0].type), "reload");
  assert.equal(await entered(), 1);
});

test("a load that is called a reload, and before which nobody was looking at the page, keeps the place", async () => {
  await page.goto(HERE);
  await shows("501st");
  await line({ Last: 900, Served: 100 });
  // What a phone's browser finds that ended the page in the background, or one that loads anew by itself after it had no network: the page
  // was left before this load began.
  await page.addInitScript(() => sessionStorage.setItem("soonbeon:main:seen", String(performance.timeOrigin - 2000)));
  await page.reload();
  await shows("401st");
  assert.equal(await entered(), 1);
});

test("a tab whose process died, and which is loaded again, keeps the place", async () => {
  await page.goto(HERE);
  await shows("501st");
  await line({ Last: 900, Served: 100 });
  const crashed = page.waitForEvent("crash");
  page.goto("chrome://crash").catch(() => {});
  await crashed;
  const again = await context.newPage(); // with what the browser kept
  await page.close();
  page = again;
  await page.goto(HERE);
  await shows("401st");
  assert.equal(await entered(), 1);
});

test("a lost network is said, and loses nothing", async () => {
  await page.goto(HERE);
  await shows("501st");
  await context.setOffline(true);
  await until(async () => /You have no network connection. Your place is kept/.test(await text(page)), "offline is said");
  assert.equal(await number(page), "501st", "what was known stays");
  await until(async () => /as of \d+ seconds ago/.test(await text(page)), "and how old it is");
  await line({ Last: 900, Served: 100 });
  await context.setOffline(false);
  await shows("401st");
  assert.doesNotMatch(await text(page), /no network/);
  // A load that failed, and is done again when the network is back, is no refresh: nobody was looking at the page by then.
  await context.setOffline(true);
  await page.reload().catch(() => {});
  await context.setOffline(false);
  await new Promise((r) => setTimeout(r, 400));
  await page.reload();
  await shows("401st");
  assert.equal(await entered(), 1);
});

test("a waiting room that does not answer is said, before and after entering", async () => {
  await line({ Down: true });
  await page.goto(HERE);
  await until(async () => /You are not known to be in line yet/.test(await text(page)), "it is not claimed that they wait");
  await line({ Down: false });
  await shows("501st");
  await line({ Down: true });
  await until(async () => /Your place is kept, and this page tries again/.test(await text(page)), "it is said");
  await line({ Down: false, Approximate: true });
  await until(async () => /may be a little high/.test(await text(page)), "approximate is said");
  assert.match(await text(page), /about 500 ahead/);
  assert.equal(await entered(), 1);
});

test("fault 4: two tabs are one place, one chain of polls, and one way in", async () => {
  await Promise.all([page.goto(HERE + "&return=" + encodeURIComponent(SITE + "/x")), (async () => {})()]);
  const other = await context.newPage();
  await Promise.all([other.goto(HERE + "&return=" + encodeURIComponent(SITE + "/x")), shows("501st")]);
  await until(async () => (await number(other)) === "501st", "the other tab");
  assert.equal(await entered(), 1);
  const began = await asked();
  const t = Date.now();
  await new Promise((r) => setTimeout(r, 2000));
  const chains = ((await asked()) - began) / ((Date.now() - t) / 300);
  assert.ok(chains < 1.5, "polls for " + chains + " tabs");
  await line({ Served: 200 });
  await until(async () => (await number(other)) === "301st", "both are told");
  await shows("301st");
  await line({ Served: 501 });
  await until(() => other.url().startsWith(SITE), "the tab that was looked at last goes");
  await other.waitForSelector("#in");
  await new Promise((r) => setTimeout(r, 3000));
  assert.ok(page.url().startsWith(ROOM), "and the other stays");
  assert.equal(await view(page), "turn");
  assert.equal(await entered(), 1);
});

test("two tabs that are opened at one moment are one place", async () => {
  const tabs = await Promise.all([1, 2, 3].map(() => context.newPage()));
  await Promise.all(tabs.map((t) => t.goto(HERE)));
  for (const t of tabs) await until(async () => (await number(t)) === "501st", "each tab");
  assert.equal(await entered(), 1);
});

test("without JavaScript", async () => {
  await open({ javaScriptEnabled: false });
  await page.goto(HERE + "&return=" + encodeURIComponent(SITE + "/buy?a=1+2"));
  await page.waitForURL(/plain=1/);
  await page.click("text=Take a place in line");
  await page.waitForSelector("text=501st");
  assert.equal(await entered(), 1);
  await line({ Served: 300 });
  await page.waitForSelector("text=201st"); // by itself
  await page.reload();
  await page.waitForSelector("text=201st");
  assert.equal(await entered(), 1);
  await line({ Served: 501 });
  await page.click("text=Go in now");
  await page.waitForSelector("#in");
  assert.equal(page.url(), SITE + "/buy?a=1+2");
});

test("who entered without JavaScript goes on with it", async () => {
  await open({ javaScriptEnabled: false });
  await page.goto(HERE + "&plain=1");
  await page.click("text=Take a place in line");
  await page.waitForSelector("text=501st");
  const cookies = await context.cookies();
  assert.equal(cookies.length, 1);
  await open({});
  await context.addCookies(cookies);
  await line({ Last: 800 });
  await page.goto(HERE);
  await shows("501st");
  assert.equal(await entered(), 1);
});

test("too old a browser goes to the page without scripts", async () => {
  await page.goto(HERE);
  await shows("501st");
  const old = await page.getAttribute("script[nomodule]", "src");
  await page.evaluate((src) => {
    const s = document.createElement("script"); // as a browser without modules would run it
    s.src = src;
    document.head.append(s);
  }, old);
  await page.waitForURL(/plain=1/);
  await page.waitForSelector("text=501st");
});

test("by the keyboard alone", async () => {
  await open({ isMobile: false });
  await page.goto(HERE);
  await shows("501st");
  const found = [];
  for (let i = 0; i < 6; i++) {
    await page.keyboard.press("Tab");
    found.push(await page.evaluate(() => document.activeElement.id || document.activeElement.getAttribute("hreflang") || document.activeElement.tagName));
  }
  for (const what of ["sb-alert", "sb-leave", "en", "ko"]) assert.ok(found.includes(what), what + " in " + found);
  await page.focus("#sb-leave");
  await page.keyboard.press("Enter");
  await page.waitForSelector("#sb-ask[open]");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await until(async () => (await view(page)) === "left", "left");
  await page.focus("#sb-enter");
  await page.keyboard.press("Enter");
  await shows("502nd"); // the next ticket: the line of the test does not close up
});

test("a screen reader hears changes at a bearable pace", async () => {
  await page.goto(HERE);
  await shows("501st");
  await page.evaluate(() => {
    window.heard = [];
    new MutationObserver(() => window.heard.push(document.getElementById("sb-said").textContent)).observe(document.getElementById("sb-said"), { childList: true, characterData: true, subtree: true });
  });
  for (let served = 10; served <= 100; served += 10) {
    await line({ Served: served });
    await until(async () => (await number(page))?.startsWith(String(501 - served)), "the number goes on");
  }
  assert.deepEqual(await page.evaluate(() => window.heard), [], "numbers are not rattled off");
  await line({ Now: { ID: "main", Paused: true, Settings: {} } });
  await until(async () => (await page.evaluate(() => window.heard.length)) === 1, "and what happens is said");
  assert.match(await page.evaluate(() => window.heard[0]), /The line is paused/);
});

test("it opens, it is paused, it ends", async () => {
  const opens = Date.now() + 4000;
  await line({ Now: { ID: "main", Settings: { OpensAtMs: opens, Message: "At noon" } } });
  await page.goto(HERE);
  await until(async () => (await view(page)) === "notopen", "not open");
  assert.match(await text(page), /opens in 0:0[1-4]/);
  assert.match(await text(page), /At noon/);
  await until(async () => (await view(page)) === "waiting", "open");
  await line({ Now: { ID: "main", Paused: true, Settings: { Message: "Back soon" } } });
  await until(async () => (await view(page)) === "paused", "paused");
  assert.match(await text(page), /Back soon/);
  await line({ Now: { ID: "main", Closed: true, Ending: true, Why: "sold_out", Settings: { Message: "Thank you" } } });
  await until(async () => (await view(page)) === "sold_out", "sold out");
  assert.match(await text(page), /Thank you/);
  const polls = await asked();
  await open({});
  await page.goto(HERE);
  await until(async () => (await view(page)) === "sold_out", "for who comes late, too");
  assert.equal(await asked(), polls);
});

test("a turn that nobody took is over, and a new place can be had", async () => {
  await line({ Last: 0, Served: 1, GrantMs: 2500 });
  await page.goto(HERE); // without a way back: it says so, and goes nowhere
  await until(async () => (await view(page)) === "turn", "its turn");
  assert.match(await text(page), /go back to the site that sent you here/);
  assert.ok(!(await page.isVisible("#sb-go")));
  await until(async () => (await view(page)) === "expired", "over");
  await line({ Last: 9 });
  await page.click("#sb-enter");
  await until(async () => (await view(page)) === "waiting", "a new place");
});

test("an identity that the site signed is shown when entering, and stays in no address", async () => {
  const shown = page.waitForRequest((r) => r.method() === "POST" && r.url() === ROOM + "/queue/enter");
  await page.goto(HERE + "#identity=signed.by.site");
  assert.equal((await shown).headers().authorization, "Bearer signed.by.site");
  await shows("501st");
  assert.equal(page.url(), HERE);
});

test("the turn is told by sound and notification, if allowed, to who looks elsewhere, and waits for them", async () => {
  await page.addInitScript(() => {
    window.told = [];
    window.Notification = class {
      static permission = "default";
      static async requestPermission() {
        this.permission = "granted";
      }
      constructor(title, { body }) {
        window.told.push(title + " " + body);
      }
    };
    const start = OscillatorNode.prototype.start;
    OscillatorNode.prototype.start = function (...at) {
      window.told.push("sound");
      return start.apply(this, at);
    };
  });
  await page.goto(HERE + "&return=" + encodeURIComponent(SITE + "/x"));
  await shows("501st");
  await page.click("#sb-alert");
  await until(() => page.evaluate(() => Notification.permission === "granted"), "asked for, and only after a press");
  assert.equal(await page.getAttribute("#sb-alert", "aria-pressed"), "true");
  const look = (hidden) => page.evaluate((hidden) => {
    Object.defineProperty(document, "hidden", { get: () => hidden, configurable: true });
    Object.defineProperty(document, "visibilityState", { get: () => (hidden ? "hidden" : "visible"), configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
    if (hidden) window.told = [];
  }, hidden);
  await look(true);
  await line({ Served: 501, GrantMs: 60_000 });
  await until(async () => (await view(page)) === "turn", "its turn, seen by a hidden tab");
  const told = await page.evaluate(() => window.told);
  assert.equal(told.filter((t) => t === "sound").length, 4);
  assert.match(told.find((t) => t !== "sound"), /^It is your turn The way stays open for (1:00|0:5)/);
  await new Promise((r) => setTimeout(r, 4000));
  assert.ok(page.url().startsWith(ROOM), "it does not go before its person looks");
  await look(false);
  await page.waitForSelector("#in");
});

test("fault 20: a receipt of somebody else is nobody's", async () => {
  await page.goto(HERE);
  await shows("501st");
  await page.evaluate(() => localStorage.setItem("soonbeon:main", JSON.stringify({ receipt: "ey.ey.x" })));
  await context.clearCookies();
  await page.goto(ROOM + "/queue/preview");
  await page.goto(HERE);
  await until(async () => (await entered()) === 2, "a new place");
  await shows("502nd");
});

test("a site that does not keep its cookie sends nobody round in a circle", async () => {
  await line({ Last: 0, Served: 1 });
  const there = HERE + "&return=" + encodeURIComponent(SITE + "/x");
  await page.goto(there);
  await page.waitForSelector("#in");
  await page.goto(there);
  await until(async () => (await view(page)) === "turn", "its turn, still");
  await new Promise((r) => setTimeout(r, 4000));
  assert.ok(page.url().startsWith(ROOM));
  assert.match(await text(page), /has taken you there before/);
  await page.click("#sb-go"); // by their own hand
  await page.waitForSelector("#in");
});
