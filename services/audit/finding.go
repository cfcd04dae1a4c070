package audit

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

// Kind is what a finding is about. It is part of the JSON output: a name never changes.
type Kind string

// What is wrong.
const (
	LogShort          Kind = "log_short"
	LogRecreated      Kind = "log_recreated"
	Backwards         Kind = "backwards"
	Passed            Kind = "passed"
	OutOfOrder        Kind = "out_of_order"
	Twice             Kind = "twice"
	NotTheirs         Kind = "not_theirs"
	AfterEnd          Kind = "after_end"
	BeforeDraw        Kind = "before_draw"
	SeedDiffers       Kind = "seed_differs"
	RateExceeded      Kind = "rate_exceeded"
	CapacityExceeded  Kind = "capacity_exceeded"
	NotOpen           Kind = "not_open"
	CheckpointDiffers Kind = "checkpoint_differs"
	Sums              Kind = "sums"
	FoldDiffers       Kind = "fold_differs"
	RedisDiffers      Kind = "redis_differs"
	RedisAhead        Kind = "redis_ahead"
	RedisOtherTopic   Kind = "redis_other_topic"
	RedisAway         Kind = "redis_away"
)

// What is remarkable, and no error.
const (
	Trimmed     Kind = "trimmed"
	Unreadable  Kind = "unreadable"
	Gap         Kind = "gap"
	Void        Kind = "void"
	Repeated    Kind = "repeated"
	SecondDraw  Kind = "second_draw"
	Again       Kind = "again"
	ClockBack   Kind = "clock_back"
	RedisBehind Kind = "redis_behind"
)

// about says of each kind what it is, what it means for people, and what to do.
type about struct {
	kind             Kind
	wrong            bool
	title, means, do string
}

// abouts are in the order in which findings are told.
func abouts() []about {
	return []about{
		{LogShort, true, "records at the end of the log are gone", "Whoever entered by one of them holds a receipt, and no place in line; their tickets will be given to others.",
			"Stop entering. Put the log's files back from a copy, or find out from the brokers what was lost; see the runbook on a log in trouble."},
		{LogRecreated, true, "the log was deleted and made anew", "Everybody who waited in the log before has lost their place, and their receipts carry tickets that mean others now.",
			"If that was meant: change the keys, so that old receipts stop counting. If not: find out who deletes topics."},
		{Backwards, true, "the log goes back", "A record has a ticket that was given before. No broker does that; readers stop there or disagree about the line.",
			"Find out what wrote these records; do not let anybody in from this log until you know."},
		{Passed, true, "people were passed", "Somebody with a later ticket was let in while these people waited. No reader lets them in any more: they wait for ever.",
			"They get a new place by entering again; tell them. Keep the log and report it: this must not happen."},
		{OutOfOrder, true, "admissions out of order", "These people were named after somebody with a later ticket. Every reader ignores that, so they were not let in.",
			"They get a new place by entering again. Look at which leader wrote the record (claims), and keep the log."},
		{Twice, true, "people let in twice", "One place in line let somebody in twice: the site behind got more people than it was promised.",
			"Look at which leader wrote the record (claims), and keep the log."},
		{NotTheirs, true, "people let in on tickets that are not theirs", "Somebody was let in who did not wait with that ticket, and its holder may wait for ever.",
			"Look at which leader wrote the record (claims), and at who else can write to the topic."},
		{AfterEnd, true, "people let in after their line was ended", "They had been told that it is over: either every reader ignores the record and they stay out, or they got in past everybody else who was sent away.",
			"Look at which leader wrote the record (claims), and keep the log."},
		{BeforeDraw, true, "people let in before the lots were drawn", "They went in by the order of their tickets, before those who were to have the same chance.",
			"Look at which leader wrote the records (claims), and at when the queue was to open; keep the log."},
		{SeedDiffers, true, "the draw's seed is not the one that was committed to", "The lots were not decided before people entered, or not by the seed that was published: nobody can trust that they were not chosen.",
			"Find out who changed the catalogue's entry, or wrote to the log; keep both. Consider the draw void."},
		{RateExceeded, true, "more people than the rate", "The site behind got more people within a second than the rate and one batch.",
			"If the rate was changed and the catalogue does not know of it, give --rate the highest one. Otherwise look at the claims around the record: two leaders, or a leader whose clock jumped."},
		{CapacityExceeded, true, "more admissions at one time than the capacity", "The site behind had more people to bear than it was promised.",
			"Look at the claims around the record: two leaders, or a leader that did not know of admissions before its own."},
		{NotOpen, true, "people let in while the queue was not open", "It was paused, or its opening was still to come, and they were let in all the same.",
			"Does the leader of that time (claims) follow the catalogue? If the times were changed outside the catalogue, nothing."},
		{CheckpointDiffers, true, "checkpoints that differ", "A leader believed that another ticket was served than the records before say: it read another log, or its memory is wrong.",
			"Restart the issuer that wrote it, and check that all nodes use the same brokers."},
		{Sums, true, "the numbers do not add up", "The accounting of this audit lost an entry: it proves nothing.", "Report it with the log, if you may share it."},
		{FoldDiffers, true, "two ways of counting disagree", "What every service computes from this log is not what counting its entries gives: one of the two is wrong.",
			"Report it with the log, if you may share it."},
		{RedisDiffers, true, "Redis differs from the log", "People are told wrong positions, and a leader that pops from Redis may let in the wrong ones.",
			"Rebuild the view from the log: soonbeon replay."},
		{RedisAhead, true, "Redis knows more than the log", "The log was cut, trimmed past what Redis has applied, or is not the one that Redis was filled from: acknowledged entries may be gone.",
			"Stop the issuers. Find out which log is the right one before anything is rebuilt; see the runbook on a log in trouble."},
		{RedisOtherTopic, true, "Redis was filled from another topic", "The topic was deleted and made anew, or Redis belongs to another system. Tickets of the two mean different things.",
			"Stop the issuers. If the topic was made anew on purpose, rebuild the view: soonbeon replay."},
		{RedisAway, true, "Redis could not be compared", "Nothing is known to be wrong with the line: the log is whole whatever Redis does. Only the comparison is missing.",
			"Audit again when Redis is back, or leave out --redis."},

		{Trimmed, false, "the log was trimmed", "Who entered, and was let in, before its first record is not part of this proof.", "Keep logs for ever, or longer than any queue lives (--kafka-retention)."},
		{Unreadable, false, "records that can't be read", "They use up their tickets and nothing else happens. If one of them was an entry, its visitor holds a receipt and does not wait.",
			"Look at them (kafka-console-consumer with the offset). A newer version's records need this program to be of that version too."},
		{RedisBehind, false, "Redis is behind the log", "People who entered since then are told approximate positions.", "If it stays so: is a projector running, and what does its readiness say?"},
		{Void, false, "records of a leader that did not lead any more", "A paused or cut-off leader woke up and wrote. Every reader ignores that; its people were handed out by its successor.",
			"Nothing. If it happens often: why do issuers stall?"},
		{Repeated, false, "records written twice", "An append that was not answered had been written. Every reader ignores the second.", "Nothing."},
		{SecondDraw, false, "lots drawn a second time", "The first draw counts: every reader ignores another.", "Look at which leader wrote it (claims). If it happens again, report it."},
		{Again, false, "people who came again", "They entered anew after they had been let in, while that grant still lived, waited once more and were let in once more.", "Nothing, unless one person must get in only once: that is for the site behind to check."},
		{Gap, false, "tickets in no record", "Kafka leaves offsets out, for transactions and markers. Nobody holds these tickets.", "Nothing."},
		{ClockBack, false, "the brokers' clock went back", "Waiting times and rates around it are off by as much.", "Keep the brokers' clocks in step (NTP)."},
	}
}

// Finding is all that was found of one kind.
type Finding struct {
	Kind     Kind      `json:"kind"`
	Wrong    bool      `json:"wrong"`
	Title    string    `json:"title"`
	Count    int64     `json:"count"`
	Means    string    `json:"means"`
	Do       string    `json:"do"`
	Examples []Example `json:"examples"` // the first of them
}

// Example is one record, or one difference.
type Example struct {
	Ticket queue.Ticket `json:"ticket,omitempty"` // 0: no one record's
	Offset *int64       `json:"offset,omitempty"`
	AtMs   int64        `json:"atMs,omitempty"`
	What   string       `json:"what"`
}

// findings collects them.
type findings struct {
	most  int // examples of a kind
	kinds map[Kind]*Finding
}

func newFindings(most int) *findings { return &findings{most: most, kinds: map[Kind]*Finding{}} }

// add notes one; rec is nil where it is no one record's.
func (f *findings) add(k Kind, rec *queue.Record, format string, a ...any) {
	f.addN(k, 1, rec, format, a...)
}

// addN notes n of them, of which one is told.
func (f *findings) addN(k Kind, n int64, rec *queue.Record, format string, a ...any) {
	got := f.kinds[k]
	if got == nil {
		got = &Finding{Kind: k}
		f.kinds[k] = got
	}
	got.Count += n
	if len(got.Examples) >= f.most {
		return
	}
	e := Example{What: fmt.Sprintf(format, a...)}
	if rec != nil {
		offset := int64(rec.Ticket) - 1
		e.Ticket, e.Offset, e.AtMs = rec.Ticket, &offset, rec.AtMs
	}
	got.Examples = append(got.Examples, e)
}

// list is what was found, what is wrong first, each with what it means.
func (f *findings) list() []Finding {
	out := []Finding{}
	for _, a := range abouts() {
		if got := f.kinds[a.kind]; got != nil {
			got.Wrong, got.Title, got.Means, got.Do = a.wrong, a.title, a.means, a.do
			out = append(out, *got)
		}
	}
	slices.SortStableFunc(out, func(a, b Finding) int { return cmp.Compare(rank(a), rank(b)) })
	return out
}

func rank(f Finding) int {
	if f.Wrong {
		return 0
	}
	return 1
}
