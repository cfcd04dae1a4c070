// One stream of events, by fetch: EventSource can't send a credential. It comes back by itself.
const SILENT = 25e3; // the server is never silent for so long

/**
 * Follows url until stop() is called. on(kind, data) is called for each event; state("live" | "lost", error) when that changes;
 * refused(status, problem) for an answer of 4xx, after which it has ended.
 */
export function follow(url, secret, on, state, refused) {
  let stopped = false;
  let control;
  let timer;
  const quiet = () => {
    clearTimeout(timer);
    timer = setTimeout(() => control.abort(), SILENT);
  };
  async function run() {
    let wait = 500;
    while (!stopped) {
      control = new AbortController();
      try {
        quiet();
        const res = await fetch(url, { headers: { Authorization: "Bearer " + secret }, cache: "no-store", signal: control.signal });
        if (res.status >= 400 && res.status < 500) {
          const problem = await res.json().catch(() => ({}));
          if (!stopped) refused(res.status, problem);
          return;
        }
        if (!res.ok) throw await res.json().catch(() => ({})); // a problem document has a code
        state("live");
        wait = 500;
        let rest = "";
        const reader = res.body.pipeThrough(new TextDecoderStream()).getReader();
        for (;;) {
          const { done, value } = await reader.read();
          if (done || stopped) break;
          quiet();
          const parts = (rest + value).split("\n\n");
          rest = parts.pop();
          for (const part of parts) {
            const kind = /^event: (.*)$/m.exec(part)?.[1];
            const data = /^data: (.*)$/m.exec(part)?.[1];
            if (kind && data && !stopped) on(kind, JSON.parse(data));
          }
        }
      } catch (e) {
        if (!stopped) state("lost", e);
      } finally {
        clearTimeout(timer);
      }
      if (stopped) return;
      state("lost");
      await new Promise((r) => setTimeout(r, wait * (0.5 + Math.random())));
      wait = Math.min(wait * 2, 8000);
    }
  }
  run();
  return () => {
    stopped = true;
    clearTimeout(timer);
    control?.abort();
  };
}
