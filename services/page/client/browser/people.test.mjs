// What people do on the waiting page.
import assert from "node:assert/strict";
import { after, afterEach, before, beforeEach, test } from "node:test";
import { complaints, DESKTOP, HERE, launch, line, number, PHONE, ROOM, SITE, until, view } from "./room.mjs";
import { profile, untouched } from "./untouched.mjs";

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
const bar = (page) => page.evaluate(() => document.querySelector("progress").value);
const focused = (page) => page.evaluate(() => document.activeElement.id || document.activeElement.tagName);

/** Looks at the page, or elsewhere, as far as the page can tell. */
const look = (hidden) => page.evaluate((hidden) => {
  Object.defineProperty(document, "hidden", { get: () => hidden, configurable: true });
  Object.defineProperty(document, "visibilityState", { get: () => (hidden ? "hidden" : "visible"), configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}, hidden);

for (const [device, size] of [["phone", PHONE], ["desktop", { ...DESKTOP, isMobile: false, hasTouch: false, deviceScaleFactor: 1 }]]) test(`from the door to the site, and back to where they were going, on a ${device}`, async () => {
  await open(size);
  const wanted = SITE + "/결제/의자?품목=1+2&x=%23a&y=b%2Fc#자리";
  await page.goto(wanted);
  await until(() => page.url().startsWith(ROOM + "/queue/wait?"), "the gate sends into the line");
  await shows("501st");
  let gone = await bar(page);
  const gaps = [];
  for (const served of [50, 120, 300, 390]) {
    await line({ Served: served });
    await until(async () => (await number(page))?.startsWith(String(501 - served)), "place " + (501 - served));
    const now = await bar(page);
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
  assert.match(await text(page), /You are being taken to the site/);
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

test("fault 7: a tab that Chromium discards, and a window that it restores, keep the place", async () => {
  const { dir, remove } = profile();
  let browser = await untouched(dir);
  const here = HERE + "&lang=en";
  try {
    await browser.open(here);
    await until(async () => (await browser.title(here)) === "501st in line", "a place", 15_000);
    await browser.discard(here);
    await until(async () => {
      const before = await asked();
      await new Promise((r) => setTimeout(r, 1200));
      return (await asked()) === before;
    }, "the tab is no more");
    await line({ Last: 900, Served: 100 });
    await browser.show(here);
    await until(async () => (await browser.title(here)) === "401st in line", "the place is kept by who looks at it again");
    const look = await browser.look(here);
    assert.equal(await look("document.wasDiscarded"), true);
    assert.equal(await entered(), 1);

    await browser.close();
    await line({ Last: 1000, Served: 200 });
    browser = await untouched(dir, "--restore-last-session");
    await until(async () => (await browser.title(here)) === "301st in line", "and by who opens the browser again", 15_000);
    assert.equal(await entered(), 1);
  } finally {
    await browser.kill();
    remove();
  }
});

test("fault 7: a load that is called a reload, of a tab that was discarded, keeps the place", async () => {
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
  assert.doesNotMatch(await text(page), /501st|\d in line|behind/, "and nothing that sounds surer");
  assert.equal(await page.title(), "about 500 ahead");
  // Loaded again meanwhile: whoever has a place is not told that they are not in line.
  await line({ Down: true, Approximate: false });
  await page.goto(HERE + "&lang=en");
  await until(async () => /does not answer at the moment. Your place is kept/.test(await text(page)), "it is said to who has a place");
  assert.doesNotMatch(await text(page), /not known to be in line/);
  await line({ Down: false });
  await shows("501st");
  assert.equal(await entered(), 1);
});

test("no network before entering", async () => {
  await line({ Down: true });
  await page.goto(HERE);
  await until(async () => /not known to be in line yet/.test(await text(page)), "nothing answers");
  await context.setOffline(true);
  await until(async () => /You have no network connection, and are not in line yet/.test(await text(page)), "nobody believes to be in line");
  await line({ Down: false });
  await context.setOffline(false);
  await shows("501st");
  assert.equal(await entered(), 1);
});

test("a refusal of something in between is tried again", async () => {
  await page.route(ROOM + "/queue/enter", (r) => r.fulfill({ status: 403, contentType: "text/html", body: "<h1>Forbidden</h1>" }), { times: 1 });
  await page.goto(HERE);
  await shows("501st");
  await page.route(/queue.position/, (r) => r.fulfill({ status: 404, contentType: "text/html", body: "<h1>nginx</h1>" }), { times: 2 });
  await until(async () => /does not answer at the moment. Your place is kept/.test(await text(page)), "it is said");
  await until(async () => !/does not answer/.test(await text(page)), "and passes");
  assert.equal(await entered(), 1);
});

test("a rule that operators change is applied to nobody whom the page had told otherwise", async () => {
  await line({ Rule: "keep" });
  await page.goto(HERE);
  await shows("501st");
  assert.match(await text(page), /Your place is kept, also when you reload/);
  await line({ Rule: "back", Last: 700 });
  await page.reload();
  await until(async () => /Don't reload this page/.test(await text(page)), "the page says the new rule");
  await shows("501st");
  assert.equal(await entered(), 1);
  await page.reload();
  await shows("701st");
});

test("the bar never goes back: not by a looser bound, a second tab or a reload", async () => {
  await line({ Rule: "keep" });
  await page.goto(HERE);
  await shows("501st");
  await line({ Served: 300 });
  await shows("201st");
  const gone = await bar(page);
  assert.ok(gone > 500, String(gone));
  await line({ Served: 100, Approximate: true });
  await until(async () => /about 400 ahead/.test(await text(page)), "a bound");
  assert.equal(await bar(page), gone);
  const other = await context.newPage();
  await other.goto(HERE);
  await until(async () => /about 400 ahead/.test(await text(other)), "another tab");
  assert.equal(await bar(other), gone);
  await other.close();
  await page.reload();
  await until(async () => /about 400 ahead/.test(await text(page)), "loaded again");
  assert.equal(await bar(page), gone);
  await line({ Served: 350, Approximate: false });
  await shows("151st");
  assert.ok((await bar(page)) > gone, "and it goes on");
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

test("the buttons of a window work also where another one asks", async () => {
  await line({ Last: 0, Served: 1, GrantMs: 2000 });
  await page.goto(HERE);
  const other = await context.newPage(); // which was looked at last, and asks
  await other.goto(HERE);
  for (const p of [page, other]) await until(async () => (await view(p)) === "expired", "over in both", 10000);
  await line({ Last: 500 });
  await page.click("#sb-enter");
  await shows("500th");
  await until(async () => (await number(other)) === "500th", "and in the other");
  assert.equal(await entered(), 2);
});

test("two tabs that are opened at one moment are one place", async () => {
  const tabs = await Promise.all([1, 2, 3].map(() => context.newPage()));
  await Promise.all(tabs.map((t) => t.goto(HERE)));
  for (const t of tabs) await until(async () => (await number(t)) === "501st", "each tab").catch(async (e) => {
    throw new Error(`${e.message}: ${await Promise.all(tabs.map(number))}, ${JSON.stringify(await line())}`);
  });
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
  assert.equal(await focused(page), "soonbeon", "what was pressed is gone, and the page is where one was");
  await page.focus("#sb-enter");
  await page.keyboard.press("Enter");
  await shows("502nd"); // the next ticket: the line of the test does not close up
  assert.equal(await focused(page), "soonbeon");
  await page.focus("#sb-alert");
  for (const pressed of ["true", "false"]) {
    await page.keyboard.press("Enter");
    assert.equal(await page.getAttribute("#sb-alert", "aria-pressed"), pressed);
  }
});

test("a question about a place ends with it", async () => {
  await page.goto(HERE);
  await shows("501st");
  await page.click("#sb-leave");
  await page.waitForSelector("#sb-ask[open]");
  await line({ Served: 501 });
  await until(async () => (await view(page)) === "turn", "its turn");
  assert.ok(!(await page.isVisible("#sb-ask")));
  assert.equal((await line()).count.left, undefined);
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
  // Half a minute later, by the page's own clock, the number that is new is said.
  const later = () => page.evaluate(() => {
    const now = performance.now.bind(performance);
    performance.now = () => now() + 31_000;
  });
  const last = () => page.evaluate(() => window.heard.at(-1));
  await line({ Now: { ID: "main", Settings: { Message: "Back at five" } } });
  await until(async () => /You are 401st in line.*Back at five/.test(await last()), "what operators say is said at once");
  await line({ Served: 200 });
  await shows("301st");
  assert.match(await last(), /401st/);
  await later();
  await line({ Served: 201 });
  await until(async () => /You are 300th in line/.test(await last()), "a number twice a minute");
  assert.doesNotMatch(await last(), /Back at five/, "beside which nothing is said again");
  await context.setOffline(true);
  await until(async () => /You have no network connection/.test(await last()), "trouble is said at once");
  await context.setOffline(false);
  await until(async () => !/no network/.test(await last()), "and its end");
  assert.equal(await page.getAttribute("#sb-said", "aria-live"), "polite");
  await line({ Served: 501 });
  await until(async () => /It is your turn/.test(await last()), "the turn");
  assert.equal(await page.getAttribute("#sb-said", "aria-live"), "assertive");
});

test("the place is said as soon as it is known", async () => {
  await line({ RetryMs: 2000 });
  await page.goto(HERE);
  await until(async () => (await view(page)) === "waiting" && !(await number(page)), "entered, without a number");
  await shows("501st");
  assert.match(await page.textContent("#sb-said"), /You are 501st in line/);
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
  assert.match(await text(page), /Thank you$/m);
  assert.equal(await asked(), polls);
});

test("a turn that nobody took is over, and a new place can be had", async () => {
  await line({ Last: 0, Served: 1, GrantMs: 2500 });
  await page.goto(HERE); // without a way back: it says so, and goes nowhere
  await until(async () => (await view(page)) === "turn", "its turn");
  assert.match(await text(page), /go back to the site that sent you here/);
  assert.doesNotMatch(await text(page), /being taken/, "nothing takes them anywhere");
  assert.ok(!(await page.isVisible("#sb-go")));
  await until(async () => (await view(page)) === "expired", "over");
  await line({ Last: 9 });
  await page.click("#sb-enter");
  await until(async () => (await view(page)) === "waiting", "a new place");
});

test("without an address to go back to, the way leads where operators send people", async () => {
  await line({ Last: 0, Served: 1, AdmitTo: SITE + "/공연?x=1+2#seats" });
  await page.goto(HERE);
  await page.waitForSelector("#in");
  assert.equal(decodeURI(page.url()), SITE + "/공연?x=1+2#seats");
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
  await page.evaluate(() => (window.told = []));
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
  assert.doesNotMatch(await text(page), /being taken/);
  await page.click("#sb-go"); // by their own hand
  await page.waitForSelector("#in");
});

test("a tab that nobody looks at goes before its turn is over, and not after", async () => {
  const there = HERE + "&return=" + encodeURIComponent(SITE + "/x");
  await line({ GrantMs: 7500 });
  await page.goto(there);
  await shows("501st");
  await look(true);
  await line({ Served: 501 });
  await until(async () => (await view(page)) === "turn", "its turn");
  const began = Date.now();
  await page.waitForSelector("#in");
  assert.ok(Date.now() - began > 4000, "it has waited for its person: " + (Date.now() - began));
  // The same where the tab slept past the end: there is nothing to go to with.
  await line({ Last: 600, Served: 501, GrantMs: 5000 });
  await open({});
  await page.goto(there);
  await shows("100th");
  await look(true);
  await line({ Served: 601 });
  await until(async () => (await view(page)) === "turn", "its turn");
  await page.evaluate(() => {
    const now = performance.now.bind(performance);
    performance.now = () => now() + 6000;
  });
  await look(false);
  await until(async () => (await view(page)) === "expired", "it says so");
  assert.ok(page.url().startsWith(ROOM));
});

test("dates and numbers are the reader's, and a part that was wanted outlives a change of language", async () => {
  const opens = Date.UTC(2030, 0, 2, 1);
  await line({ Last: 123_456, Now: { ID: "main", Settings: { OpensAtMs: opens } } });
  for (const [locale, timezoneId, date, behind] of [
    ["en-US", "America/New_York", /January 1, 2030 at 8:00.PM/, "123,4"],
    ["en-GB", "Asia/Seoul", /2 January 2030 at 10:00\b/, "123,4"],
    ["en-IN", "Asia/Kolkata", /2 January 2030 at 6:30.am/, "1,23,4"],
    ["ko-KR", "Asia/Seoul", /2030년 1월 2일 오전 10:00/, "123,4"],
  ]) {
    await open({ locale, timezoneId });
    await page.goto(HERE + "&return=" + encodeURIComponent(SITE + "/x") + "#rows");
    await until(async () => (await view(page)) === "notopen" && date.test(await text(page)), locale + ": " + date);
    assert.ok((await number(page)).startsWith(behind), locale + ": " + (await number(page)));
    assert.match(await text(page), locale === "ko-KR" ? /시작까지 \d[\d,]*일 \d+:/ : /opens in \d[\d,]*d \d+:/);
  }
  await page.click("footer a[hreflang=en]");
  await page.waitForURL(/lang=en/);
  assert.equal(new URL(page.url()).hash, "#rows");
});

test("on a slow phone with a slow network", async () => {
  const cdp = await context.newCDPSession(page);
  await cdp.send("Network.enable");
  await cdp.send("Network.emulateNetworkConditions", { offline: false, latency: 400, downloadThroughput: 50_000, uploadThroughput: 50_000 });
  await cdp.send("Emulation.setCPUThrottlingRate", { rate: 6 });
  let bytes = 0;
  cdp.on("Network.loadingFinished", (e) => (bytes += e.encodedDataLength));
  const began = Date.now();
  await page.goto(HERE);
  await until(async () => (await number(page)) === "501st", "the place", 15_000);
  const took = Date.now() - began;
  console.log(`the place is shown after ${took} ms and ${bytes} bytes`);
  assert.ok(took < 10_000, took + " ms");
  assert.ok(bytes > 8_000 && bytes < 30_000, bytes + " bytes");
});

test("back from the site, by what the browser has kept of the page", async () => {
  const browser = await launch({ ignoreDefaultArgs: ["--disable-back-forward-cache"] });
  try {
    const page = await (await browser.newContext({ ...PHONE, locale: "en-US" })).newPage();
    await page.addInitScript(() => addEventListener("pageshow", (e) => (window.persisted = e.persisted)));
    const persisted = () => page.evaluate(() => window.persisted);
    await page.goto(HERE + "&return=" + encodeURIComponent(SITE + "/x"));
    await until(async () => (await number(page)) === "501st", "a place");
    await page.goto(ROOM + "/queue/preview");
    await line({ Last: 900, Served: 100 });
    await page.goBack({ waitUntil: "commit" });
    assert.equal(await persisted(), true, "the page was kept, not loaded");
    await until(async () => (await number(page)) === "401st", "and goes on");
    const began = await asked();
    await new Promise((r) => setTimeout(r, 1500));
    const chains = ((await asked()) - began) / 5;
    assert.ok(chains > 0.2 && chains < 1.6, "one chain of polls: " + chains);
    // Who went in by the button and comes back finds no promise that is over.
    await line({ Served: 501, GrantMs: 6000 });
    await page.click("#sb-go", { noWaitAfter: true });
    await page.waitForSelector("#in");
    await page.goBack({ waitUntil: "commit" });
    assert.equal(await persisted(), true);
    await until(async () => (await view(page)) === "expired", "it is over, and says so", 10_000);
    assert.equal(await entered(), 1);
  } finally {
    await browser.close();
  }
});
