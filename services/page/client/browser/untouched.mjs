// A Chromium of which no tab is looked at by a debugger, since what a debugger holds is never thrown away. It is driven by its pipe,
// tabs are seen from outside (by their titles), and chrome://discards is the page that discards.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { until } from "./room.mjs";

export function profile() {
  const dir = mkdtempSync(join(tmpdir(), "soonbeon-profile-"));
  writeFileSync(join(dir, "Local State"), JSON.stringify({ internal_only_uis_enabled: true })); // or there is no chrome://discards
  return { dir, remove: () => rmSync(dir, { recursive: true, force: true, maxRetries: 5 }) };
}

/** Starts it on a profile, which may have tabs of an earlier life: "--restore-last-session". */
export async function untouched(dir, ...more) {
  const args = ["--headless", "--no-sandbox", "--disable-dev-shm-usage", "--no-first-run", "--lang=en-US", "--user-data-dir=" + dir, "--remote-debugging-pipe", ...more];
  const child = spawn(process.env.CHROMIUM, args, { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"], env: { ...process.env, LANGUAGE: "en_US" } });
  const ended = new Promise((resolve) => child.once("exit", resolve));
  const answers = new Map();
  let rest = "";
  let last = 0;
  child.stdio[3].on("error", () => {});
  child.stdio[4].on("error", () => {});
  child.stdio[4].on("data", (bytes) => {
    const messages = (rest + bytes).split("\0");
    rest = messages.pop();
    for (const m of messages.map((m) => JSON.parse(m))) answers.get(m.id)?.(m);
  });
  const send = (method, params = {}, sessionId) => new Promise((resolve, reject) => {
    const id = ++last;
    answers.set(id, (m) => (m.error ? reject(new Error(method + ": " + m.error.message)) : resolve(m.result)));
    child.stdio[3].write(JSON.stringify({ id, method, params, ...(sessionId && { sessionId }) }) + "\0");
  });
  const tab = async (url) => (await send("Target.getTargets")).targetInfos.find((t) => t.type === "page" && t.url.startsWith(url));
  /** What an expression is on a tab, which a debugger looks at from then on. */
  const look = async (url) => {
    const { sessionId } = await send("Target.attachToTarget", { targetId: (await tab(url)).targetId, flatten: true });
    return async (expression) => (await send("Runtime.evaluate", { expression, returnByValue: true }, sessionId)).result.value;
  };
  return {
    open: (url) => send("Target.createTarget", { url }),
    title: async (url) => (await tab(url))?.title,
    show: async (url) => send("Target.activateTarget", { targetId: (await tab(url)).targetId }),
    look,
    /** Throws a tab away as Chromium does when memory is short. */
    async discard(url) {
      await send("Target.createTarget", { url: "chrome://discards/" });
      await until(() => tab("chrome://discards"), "chrome://discards");
      const discards = await look("chrome://discards");
      await until(() => discards(`(() => {
        const found = [];
        const walk = (node) => node.querySelectorAll("*").forEach((e) => { found.push(e); if (e.shadowRoot) walk(e.shadowRoot); });
        walk(document);
        const row = found.find((e) => e.tagName === "TR" && e.textContent.includes(${JSON.stringify(url)}));
        const button = [...(row?.querySelectorAll("*") ?? [])].find((e) => !e.children.length && e.textContent.includes("Urgent Discard"));
        button?.click();
        return !!button;
      })()`), "the tab in chrome://discards");
    },
    /** As by a person, who may want the tabs again the next time. */
    async close() {
      void send("Browser.close").catch(() => {}); // which may end before it answers
      await ended;
    },
    kill() {
      child.kill("SIGKILL");
      return ended;
    },
  };
}
