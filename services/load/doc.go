// Package load plays a crowd in front of a waiting room and checks, as only its clients can, that what was promised to
// them was kept. It is the engine of "soonbeon load".
//
// Each visitor does what a browser would do, over HTTP: enter once, with an Idempotency-Key of its own that is sent
// again when the answer was lost or was a 503; ask for its position exactly when it was told to; keep the renewed
// receipt; and stop at its entry token.
//
//	entering ──202──▶ waiting ──admitted──▶ (asked once more) ──▶ done
//	  ▲  │ lost, 503    ▲  │ waiting: after retryAfterMs
//	  └──┘ same key     └──┘ (a few enter again once: refresh)
//
// A visitor who sleeps costs a place in a heap and a few hundred bytes, no goroutine; a fixed number of workers, one
// for each connection, plays whoever is due. People who are due to ask go before people who have not come yet, four to
// one, so that a flood of entries does not make the polls late; where they are late all the same, the summary says so.
//
// What it promises: it ends by itself, at the latest after Config.Timeout; it breaks off when its context ends and
// tells what is known by then; memory is bounded by the number of visitors; and a broken invariant, once seen, is in the
// report with its first example. Examples name the visitor by its number in this run and by its ticket, never by id,
// receipt or token.
//
// What it checks: nobody who was acknowledged is lost, or passed by and left behind; nobody and no ticket is admitted
// twice; admissions are in the order of tickets; a position does not rise while its owner only polls, is at least 1 and
// at most the total; nobody waits again after being admitted; receipts are accepted; entry tokens are genuine (with
// Config.Keys) or at least well-formed and live (without); no second had more admissions than the rate and one batch.
//
// Where the target draws lots, the order is that of the numbers: what it had committed to is read before anybody enters, and every
// number that it tells is held against the seed. Who is told that the line is over for a reason of its operators (sold out, for
// instance), or comes when it is closed, is listed apart: that breaks no promise, and nobody has lost a place by it.
//
// With Config.HTML the run is drawn as well: arrivals, admissions against the rate, the line, waits, and how quick answers were, in at most 400
// steps of time, on one page that needs nothing else.
//
// When the target dies, visitors try again, after Retry-After or with a growing pause, until it is back or the time is
// up. Errors of that kind are counted and shown, and are no broken invariant: an answer that never came promised
// nothing.
//
// What it leaves out: it does not read the log or Redis (that is for an audit), so it knows only what was told to its
// own visitors. Order and rate are judged by the times inside the entry tokens, which are the issuer's or the broker's,
// so they do not depend on when somebody polled; where two issuers' clocks disagree, so do those times. The rate is that
// of its own visitors: other people in the same line make it look lower, never higher.
package load
