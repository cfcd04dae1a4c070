/**
 * Waits in a soonbeon line for whoever sits in front of this browser.
 *
 *     enter once ──▶ poll, when told ──▶ stream (the next hundred) ──▶ admitted, or over
 *                        ▲  └── fails, or ends ◀──┘
 *
 * What it promises: there is one chain of requests at any time, in all tabs of one browser together; the server's
 * retryAfterMs is obeyed, and a hidden tab asks less often; an entry is repeated with its Idempotency-Key until it is
 * answered, so it is one place; the newest receipt is kept, so a tab that comes back goes on with it. Entering again,
 * which may move its holder back, happens only when it is asked for.
 *
 * When the network or the server is away it tries again, less and less often, and says so beside what was known last.
 */
/** What becomes of the one who waits. closed, over and refused are final: nothing more is asked. */
export type State = "entering" | "waiting" | "admitted" | "over" | "closed" | "refused";
/** What is known. Fields that do not apply are left out; a number that is left out is not known. */
export interface Update {
    state: State;
    /** 1 is next. Exact, or an upper bound where precision says "approximate". */
    position?: number;
    ahead?: number;
    behind?: number;
    total?: number;
    /** The number that was entered with. */
    ticket?: number;
    /** The number that was drawn, where lots decide. */
    number?: number;
    nowServing?: number;
    etaSeconds?: number;
    opensAt?: string;
    /** From the moment of `at`, so that a wrong clock does not matter. */
    opensInSeconds?: number;
    /** "draw": lots are still to be drawn, so nobody has a position. */
    order?: string;
    commitment?: string;
    paused?: boolean;
    /** What the operators say. */
    message?: string;
    precision?: "exact" | "approximate";
    /** admitted: what opens the gate. */
    token?: string;
    expiresAt?: string;
    /** admitted: what was left of it at `at`, by the server's clock, within a second. */
    expiresInMs?: number;
    /** admitted: where the operators send people to. */
    admitTo?: string;
    /** over: expired, left, released, or why the line was ended. closed: why nobody is taken in. */
    reason?: string;
    /** refused: the problem's code and its detail, in English. */
    code?: string;
    detail?: string;
    /** The position before this client entered again, as it was told to. */
    movedFrom?: number;
    /** The answer is not fresh: this device has no network, or the server does not answer. It is tried again. */
    trouble?: "offline" | "unavailable";
    /** When it was answered, Date.now(). */
    at: number;
    /** Another tab of this browser asks; this one listens. */
    elsewhere?: boolean;
}
export interface Options {
    queue: string;
    /** Called with each answer, and when trouble begins or ends. */
    onUpdate(update: Update): void;
    /** Where the waiting room is, "https://wait.example"; this page's own origin where it is left out. */
    base?: string;
    /** What the site signed for this person, where entering needs it. Otherwise the receipt is all there is. */
    credential?: string;
    /** The browser holds a receipt as a cookie (one that entered without scripts): ask before entering. */
    resume?: boolean;
    /** The person asked for a reload: once it is known that they wait, enter again. They move back, as the rule says. */
    again?: boolean;
    /** Where the receipt is kept. Default: localStorage, or memory where that is refused. */
    storage?: Pick<Storage, "getItem" | "setItem">;
}
export interface Place {
    /** Enters anew after over or closed, and again while waiting, which moves back where the rule is back. */
    enter(): void;
    /** Gives the place up. */
    leave(): Promise<void>;
    /** Asks nothing more. The place stays. */
    stop(): void;
}
/** Takes a place, or goes on with the one that is kept, and stays until it is stopped. */
export declare function wait(options: Options): Place;
