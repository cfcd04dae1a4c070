import assert from "node:assert/strict";
import { afterEach, mock, test } from "node:test";
import { wait, type Place, type Update } from "../src/soonbeon-client";
import { accepted, Events, json, problem, settle, waiting, World, type Answer, type Asked } from "./fake";

let world: World;
let place: Place;
let told: Update[];

function begin(answer: Answer, more: object = {}, before?: (w: World) => void): void {
  world = new World(answer);
  before?.(world);
  told = [];
  place = wait({ queue: "main", storage: world.storage, onUpdate: (u) => told.push(u), ...more });
}

/** Ends one life, before another one or the next test. What it clears late would be a timer of the next one's. */
async function over(): Promise<void> {
  place.stop();
  await settle();
  world.end();
}

afterEach(over);

const now = (): Update => told[told.length - 1]!;
const gaps = (from = 0): number[] => world.asked.slice(from).map((a, i, all) => (i ? a.at - all[i - 1]!.at : 0)).slice(1);
const isEnter = (a: Asked): boolean => a.path === "/queue/enter";
const isEvents = (a: Asked): boolean => a.path.startsWith("/queue/events");
const kept = (): { key: string; receipt: string } => JSON.parse(world.kept.get("soonbeon:main")!);

test("enters once, and asks exactly when told, one request at a time", async () => {
  let n = 0;
  begin((a) => (isEnter(a) ? accepted(7, "r0", 2000) : waiting(900 - n, "r" + ++n, 4000 + n * 250)));
  await world.pass(20_000);
  assert.deepEqual(world.paths().slice(0, 3), ["POST /queue/enter", "GET /queue/position", "GET /queue/position"]);
  assert.deepEqual(gaps(), [2000, 4250, 4500, 4750]);
  assert.equal(world.most, 1);
  assert.equal(world.asked.filter(isEnter).length, 1);
});

test("the newest receipt is kept, and shown with the next question", async () => {
  let n = 0;
  begin((a) => (isEnter(a) ? accepted() : waiting(900, "r" + ++n)));
  await world.pass(2000);
  assert.equal(world.asked[1]!.bearer, "r0");
  assert.equal(kept().receipt, "r1");
  await world.pass(5000);
  assert.equal(world.asked[2]!.bearer, "r1");
  assert.equal(kept().receipt, "r2");
});

test("a tab that comes back goes on with the place that is kept", async () => {
  begin(() => waiting(900, "r9"), {}, (w) => w.storage.setItem("soonbeon:main", '{"key":"k","receipt":"r8"}'));
  await world.pass(300, 50);
  assert.deepEqual(world.paths(), ["GET /queue/position"]);
  assert.equal(world.asked[0]!.bearer, "r8");
});

test("fault 2: an entry is repeated with its key until it is answered, also after the tab was loaded again", async () => {
  let n = 0;
  begin((a) => (isEnter(a) ? (n++ === 0 ? new Error("cut") : problem(503, "log_unavailable", 3)) : waiting(900, "r1")));
  await world.pass(12_000);
  const keys = world.asked.map((a) => a.key);
  assert.ok(keys.length >= 3, String(keys.length));
  assert.equal(new Set(keys).size, 1);
  assert.match(keys[0]!, /^[0-9a-f]{32}$/);
  assert.deepEqual(gaps(1).slice(0, 2), [3000, 3000]);
  assert.equal(now().trouble, "unavailable");
  const before = world.kept;
  await over();
  begin(() => accepted(), {}, (w) => (w.kept = before));
  await world.pass(300, 50);
  assert.equal(world.asked[0]!.key, keys[0]);
});

test("fault 7: a hidden tab asks less often, and catches up with one request", async () => {
  begin((a) => (isEnter(a) ? accepted(7, "r0", 1000) : waiting(900, "r1", 5000)));
  await world.pass(1000);
  world.show(false);
  await world.pass(60_000);
  assert.deepEqual(gaps(1), [20_000, 20_000, 20_000], "a quarter as often");
  const before = world.asked.length;
  await world.pass(10_000); // more than the interval since the last one, less than a quarter as often
  world.show(true);
  world.show(false);
  world.show(true);
  await world.pass(250);
  assert.equal(world.asked.length, before + 1);
  assert.equal(world.most, 1);
  await world.pass(5000);
  assert.equal(world.asked.length, before + 2, "and one chain goes on");
});

test("looking at a tab again and again asks no more often than told", async () => {
  begin((a) => (isEnter(a) ? accepted(7, "r0", 1000) : waiting(900, "r1", 5000)));
  await world.pass(1000);
  for (let i = 0; i < 30; i++) {
    world.show(i % 2 === 0);
    await world.pass(500);
  }
  world.show(true);
  await world.pass(250);
  for (const gap of gaps(1)) assert.ok(gap >= 5000, String(gap));
});

test("goes from polls to the stream at 100, and is told its turn there", async () => {
  const stream = new Events();
  begin((a) => (isEnter(a) ? accepted(7, "r0", 1000) : isEvents(a) ? stream.response : waiting(100, "r1", 1000)));
  await world.pass(1000);
  assert.deepEqual(world.paths(), ["POST /queue/enter", "GET /queue/position", "GET /queue/events"]);
  assert.equal(world.asked[2]!.bearer, "r1");
  stream.write('retry: 1500\nid: 5\nevent: position\ndata: {"state":"waiting","position":42,"receipt":"r2","retryAfterMs":1000}\n\n: heart');
  await world.pass(10_000);
  assert.equal(now().position, 42);
  assert.equal(kept().receipt, "r2");
  stream.write("beat\n\n");
  await world.pass(10_000);
  assert.equal(world.asked.length, 3, "no poll beside the stream");
  const until = new Date(Date.now() + 60_000).toISOString();
  stream.write('id: 6\nevent: admitted\ndata: {"state":"admitted","queue":"main","token":"t","expi');
  await settle();
  stream.write(`resAt":"${until}"}\r\n\r\n`);
  await world.pass(1000);
  assert.equal(now().state, "admitted");
  assert.equal(now().token, "t");
  assert.equal(now().expiresInMs, 60_000);
  assert.equal(world.asked.length, 3);
});

test("a stream that fails is followed by polls, and tried again less and less often", async () => {
  begin((a) => (isEnter(a) ? accepted(7, "r0", 1000) : isEvents(a) ? new Error("cut") : waiting(50, "r1", 1000)));
  await world.pass(120_000);
  const at = world.asked.filter(isEvents).map((a) => a.at);
  const between = at.slice(1).map((t, i) => t - at[i]!);
  assert.ok(between.length >= 4 && between.length < 10, String(between));
  assert.ok(between.every((b, i) => i === 0 || b >= between[i - 1]!), String(between));
  assert.ok(world.asked.length > 90, "and polls go on each second");
  assert.equal(world.most, 1);
});

test("a stream that ends is taken up again where it was", async () => {
  let streams = 0;
  const first = new Events();
  begin((a) => (isEnter(a) ? accepted(7, "r0", 1000) : isEvents(a) ? (streams++ ? new Events().response : first.response) : waiting(50, "r1", 1000)));
  await world.pass(1000);
  first.write('retry: 700\nid: 17\ndata: {"state":"waiting","position":49}\n\n');
  await world.pass(1000);
  first.close();
  await world.pass(7000);
  const again = world.asked.filter(isEvents);
  assert.equal(again.length, 2);
  assert.equal(again[1]!.lastEvent, "17");
});

test("a stream that says nothing is left, and followed by a poll", async () => {
  const random = mock.method(Math, "random", () => 0.99); // by when the next stream might be tried
  begin((a) => (isEnter(a) ? accepted(7, "r0", 1000) : isEvents(a) ? new Events().response : waiting(50, "r1", 1000)));
  await world.pass(1000);
  const before = world.asked.length;
  await world.pass(10_250);
  random.mock.restore();
  assert.equal(world.paths()[before], "GET /queue/position");
});

test("who is not near is told when to ask", async () => {
  begin((a) => (isEnter(a) ? accepted(7, "r0", 1000) : isEvents(a) ? problem(409, "not_near", 3, { retryAfterMs: 2500 }) : waiting(100, "r1", 1000)));
  await world.pass(1000);
  const before = world.asked.length;
  await world.pass(2500);
  assert.equal(world.asked[before]!.at - world.asked[before - 1]!.at, 2500);
});

test("a server with too many streams is asked by polls meanwhile", async () => {
  begin((a) => (isEnter(a) ? accepted(7, "r0", 1000) : isEvents(a) ? problem(503, "streams_full", 30) : waiting(100, "r1", 1000)));
  await world.pass(26_000);
  assert.equal(world.asked.filter(isEvents).length, 1);
  assert.ok(world.asked.length >= 25, String(world.asked.length));
});

test("offline is said, what was known stays, and the network's return is used at once", async () => {
  let cut = false;
  begin((a) => (cut ? new Error("no network") : isEnter(a) ? accepted(7, "r0", 1000) : waiting(900, "r1", 30_000)));
  await world.pass(1000);
  cut = true;
  world.network(false);
  await settle();
  assert.equal(now().trouble, "offline");
  assert.equal(now().position, 900);
  await world.pass(60_000);
  const before = world.asked.length;
  assert.ok(before < 12, "tried less and less often: " + before);
  cut = false;
  world.network(true);
  await world.pass(250);
  assert.equal(world.asked.length, before + 1);
  assert.equal(now().trouble, undefined);
  assert.equal(world.asked.filter(isEnter).length, 1, "a lost network is no refresh");
});

test("a request that is never answered is given up", async () => {
  begin((a) => (isEnter(a) ? accepted(7, "r0", 1000) : new Promise<Response>(() => {})));
  await world.pass(1000 + 20_000);
  assert.equal(now().trouble, "unavailable");
  await world.pass(5000);
  assert.equal(world.most, 1);
  assert.equal(world.asked.length, 3);
});

test("a reload that was asked for enters again once it is known that its person waits, with one key", async () => {
  let entered = 0;
  begin(
    (a) => (isEnter(a) ? (entered++ ? accepted(99, "r20", 5000) : problem(503, "overloaded", 1)) : waiting(entered > 1 ? 500 : 30, "r10", 1000)),
    { again: true },
    (w) => w.storage.setItem("soonbeon:main", '{"key":"old","receipt":"r8"}'),
  );
  await world.pass(8000);
  assert.deepEqual(world.paths().slice(0, 5), ["GET /queue/position", "POST /queue/enter", "GET /queue/position", "POST /queue/enter", "GET /queue/position"]);
  const keys = world.asked.filter(isEnter).map((a) => a.key);
  assert.equal(keys[0], keys[1]);
  assert.notEqual(keys[0], "old");
  assert.equal(world.asked[1]!.bearer, "r10");
  assert.equal(now().movedFrom, 30);
  assert.equal(now().position, 500);
  assert.equal(world.asked.filter(isEnter).length, 2);
});

test("fault 5: a reload of who was let in enters nothing", async () => {
  begin(
    () => json(200, { state: "admitted", queue: "main", token: "t", expiresAt: new Date(Date.now() + 9000).toISOString() }),
    { again: true },
    (w) => w.storage.setItem("soonbeon:main", '{"key":"old","receipt":"r8"}'),
  );
  await world.pass(1000);
  assert.deepEqual(world.paths(), ["GET /queue/position"]);
  await world.pass(10_000);
  assert.equal(world.asked.length, 2, "and asks once more when its time is over");
});

test("a receipt that counts for nothing any more is given up, and a place taken anew", async () => {
  begin((a) => (a.bearer === "old" ? problem(401, "credential_invalid") : isEnter(a) ? accepted() : waiting(900, "r1")), {}, (w) =>
    w.storage.setItem("soonbeon:main", '{"key":"k","receipt":"old"}'));
  await world.pass(300, 50);
  assert.deepEqual(world.paths(), ["GET /queue/position", "POST /queue/enter"]);
  assert.notEqual(world.asked[1]!.key, "k");
});

test("a cookie that counts for nothing is given up once", async () => {
  let left = false;
  begin((a) => {
    if (a.path === "/queue/leave") left = true;
    return a.path === "/queue/leave" ? problem(401, "credential_invalid") : left ? accepted() : problem(401, "credential_invalid");
  });
  await world.pass(300, 50);
  assert.deepEqual(world.paths(), ["POST /queue/enter", "POST /queue/leave", "POST /queue/enter"]);
});

test("a cookie that may hold a place is asked about before entering", async () => {
  begin(() => waiting(12_000, "r5"), { resume: true });
  await world.pass(300, 50);
  assert.deepEqual(world.paths(), ["GET /queue/position"]);
  assert.equal(kept().receipt, "r5");
});

test("closed, unknown and over end the chain", async () => {
  for (const [reply, state] of [
    [() => problem(410, "queue_closed", 0, { reason: "sold_out" }), "closed"],
    [() => problem(404, "queue_unknown"), "refused"],
    [() => problem(403, "credential_forbidden"), "refused"],
  ] as const) {
    begin(reply);
    await world.pass(60_000);
    assert.equal(now().state, state);
    assert.equal(world.asked.length, 1);
    await over();
  }
  begin(() => json(200, { state: "over", reason: "sold_out", message: "Thank you" }), {}, (w) => w.storage.setItem("soonbeon:main", '{"receipt":"r"}'));
  await world.pass(60_000);
  assert.deepEqual([now().state, now().reason, now().message], ["over", "sold_out", "Thank you"]);
  assert.equal(world.asked.length, 1);
  place.enter();
  await world.pass(300, 50);
  assert.equal(world.asked[1]!.bearer, undefined, "a new place has nothing to do with the one that is over");
});

test("who comes to a line that has ended reads what its operators say", async () => {
  begin(() => problem(410, "queue_closed", 0, { reason: "sold_out", message: "A second date on Monday" }));
  await world.pass(300, 50);
  assert.deepEqual([now().state, now().reason, now().message], ["closed", "sold_out", "A second date on Monday"]);
});

test("a refusal that is not ours ends nothing", async () => {
  for (const status of [403, 404, 401, 410, 421]) {
    const page = (): Response => new Response("<html>no", { status, headers: { "Content-Type": "text/html" } });
    let foreign = true;
    begin((a) => (foreign ? page() : isEnter(a) ? accepted(7, "r0", 1000) : waiting(900, "r1", 1000)));
    await world.pass(3000);
    assert.equal(now().trouble, "unavailable", `${status} before entering`);
    foreign = false;
    await world.pass(10_000);
    assert.equal(now().position, 900, `${status} before entering`);
    foreign = true;
    await world.pass(3000);
    assert.deepEqual([now().trouble, now().state, now().position], ["unavailable", "waiting", 900], `${status} while waiting`);
    foreign = false;
    await world.pass(10_000);
    assert.equal(now().trouble, undefined, `${status} while waiting`);
    assert.equal(world.asked.filter((a) => isEnter(a) && a.bearer).length, 0, `${status}: the receipt was never given up`);
    assert.equal(new Set(world.asked.filter(isEnter).map((a) => a.key)).size, 1, `${status}: one entry`);
    await over();
  }
  begin(() => problem(404, "not_found"));
  await world.pass(3000);
  assert.equal(now().trouble, "unavailable", "a server of ours that has no such route, as during a deployment");
});

test("who has a place already is not told otherwise by a load that is not answered", async () => {
  begin(() => problem(503, "view_unavailable", 2), {}, (w) => w.storage.setItem("soonbeon:main", '{"key":"k","receipt":"r8"}'));
  await world.pass(300, 50);
  assert.deepEqual([now().state, now().trouble, now().position], ["waiting", "unavailable", undefined]);
  await over();
  begin(() => new Error("cut"), { resume: true }); // by a cookie
  await world.pass(300, 50);
  assert.deepEqual([now().state, now().trouble], ["waiting", "unavailable"]);
  await over();
  begin(() => new Error("cut"), {}, (w) => w.storage.setItem("soonbeon:main", '{"key":"k"}')); // asked for, and not known to be given
  await world.pass(300, 50);
  assert.deepEqual([now().state, now().trouble], ["entering", "unavailable"]);
});

test("what is known at the entry is told at once", async () => {
  begin(() => json(202, { status: "accepted", queue: "main", visitor: "v", ticket: 7, receipt: "r0", retryAfterMs: 9000, order: "draw", opensAt: "2030-01-01T00:00:00Z", opensInSeconds: 60, message: "At noon" }));
  await world.pass(300, 50);
  const { at, ...told } = now();
  assert.deepEqual(told, { state: "waiting", ticket: 7, order: "draw", opensAt: "2030-01-01T00:00:00Z", opensInSeconds: 60, message: "At noon" });
});

test("a stream whose number stands still is fresh as long as it says that it lives", async () => {
  const stream = new Events();
  begin((a) => (isEnter(a) ? accepted(7, "r0", 1000) : isEvents(a) ? stream.response : waiting(100, "r1", 1000)));
  await world.pass(1000);
  stream.write('id: 5\ndata: {"state":"waiting","position":42,"opensAt":"x","opensInSeconds":100,"retryAfterMs":1000}\n\n');
  for (let i = 0; i < 4; i++) {
    await world.pass(10_000);
    stream.write(":\n\n");
    await settle();
    assert.equal(Date.now() - now().at, 0);
  }
  assert.equal(now().opensInSeconds, 60, "what counts down goes on");
  const before = told.length;
  stream.write(":\n\n");
  await settle();
  assert.equal(told.length, before, "and not for each byte");
  await world.pass(19_000);
  assert.equal(world.asked.length, 3);
  assert.equal(Date.now() - now().at, 19_000, "silence is not freshness");
  await world.pass(5000);
  assert.equal(world.paths()[3], "GET /queue/position", "and is not waited out for long");
});

test("who comes back to a tab whose stream or request is dead is told at once", async () => {
  const stream = new Events();
  let streams = 0;
  begin((a) => (isEnter(a) ? accepted(7, "r0", 1000) : isEvents(a) ? (streams++ ? new Events().response : stream.response) : waiting(100, "r1", 1000)));
  await world.pass(1000);
  stream.write('id: 5\ndata: {"state":"waiting","position":42}\n\n');
  await settle();
  world.show(false);
  await world.pass(10_000);
  world.show(true); // a short look elsewhere ends no stream
  await world.pass(250);
  assert.equal(streams, 1);
  world.show(false);
  await world.pass(6000);
  world.show(true);
  await world.pass(250);
  assert.equal(streams, 2, "one that has been silent since is not waited for");
  assert.equal(world.asked.at(-1)!.lastEvent, "5");
  assert.equal(world.most, 1);
  await over();
  begin((a) => (isEnter(a) ? accepted(7, "r0", 1000) : new Promise<Response>(() => {})));
  await world.pass(1000);
  world.show(false);
  await world.pass(16_000);
  assert.equal(world.asked.length, 2);
  world.show(true);
  await world.pass(250);
  assert.equal(world.asked.length, 3, "the same of a poll");
  assert.equal(world.most, 1);
});

test("those who lose a stream at one moment do not all ask at one moment", async () => {
  for (const [drawn, wanted] of [[0, 1000], [0.5, 1500], [0.9, 1900]] as const) {
    const random = mock.method(Math, "random", () => drawn);
    const stream = new Events();
    begin((a) => (isEnter(a) ? accepted(7, "r0", 1000) : isEvents(a) ? stream.response : waiting(100, "r1", 1000)));
    await world.pass(1000);
    stream.write('data: {"state":"waiting","position":42}\n\n');
    await settle();
    stream.close();
    const lost = Date.now();
    await world.pass(2500, 50);
    assert.equal(world.asked[3]!.at - lost, wanted);
    random.mock.restore();
    await over();
  }
});

test("who is moved back on the stream polls at the pace of the new place", async () => {
  const random = mock.method(Math, "random", () => 0);
  const stream = new Events();
  begin((a) => (isEnter(a) ? accepted(7, "r0", 1000) : isEvents(a) ? stream.response : waiting(world.asked.length > 3 ? 900 : 100, "r1", 1000)));
  await world.pass(1000);
  stream.write('data: {"state":"waiting","position":9000,"retryAfterMs":5000}\n\n');
  await settle();
  stream.close();
  const lost = Date.now();
  await world.pass(6000);
  assert.equal(world.asked[3]!.at - lost, 5000);
  random.mock.restore();
});

test("a receipt that is refused again and again is not given up each time", async () => {
  let entered = 0;
  begin((a) => (isEnter(a) ? accepted(++entered, "r" + entered, 1000) : problem(401, "credential_invalid")), {}, (w) =>
    w.storage.setItem("soonbeon:main", '{"key":"k","receipt":"old"}'));
  await world.pass(20_000);
  assert.equal(entered, 1, "a new place once");
  assert.deepEqual([now().state, now().trouble], ["waiting", "unavailable"]);
  assert.ok(world.asked.length < 12, "and then less and less often: " + world.asked.length);
  await world.pass(200_000);
  assert.ok(entered > 1 && entered < 6, "and not for ever: " + entered);
});

test("a page in place of an answer is trouble, and no answer", async () => {
  begin(() => new Response("<html>log in", { status: 200 }));
  await world.pass(3000);
  assert.equal(now().trouble, "unavailable");
  assert.ok(world.asked.every((a) => a.key === world.asked[0]!.key));
});

test("leaving says so, and asks nothing more", async () => {
  begin((a) => (isEnter(a) ? accepted() : a.path === "/queue/leave" ? json(200, { status: "left" }) : waiting(900, "r1")));
  await world.pass(2500);
  await Promise.all([place.leave(), settle()]);
  assert.equal(now().reason, "left");
  const n = world.asked.length;
  await world.pass(60_000);
  assert.equal(world.asked.length, n);
});

test("stopped is stopped", async () => {
  begin((a) => (isEnter(a) ? accepted() : waiting(900, "r1")));
  await world.pass(2500);
  place.stop();
  const n = world.asked.length;
  world.show(false);
  world.show(true);
  world.network(true);
  await world.pass(60_000);
  assert.equal(world.asked.length, n);
});
