package linelog

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/soonbeon/soonbeon/pkg/queue"
	soonbeonv1 "github.com/soonbeon/soonbeon/proto/soonbeon/v1"
)

// Version is the newest version of the format that this package can fold. Records with a higher min_version are skipped.
const Version = 0

// maxKey bounds the digest of an idempotency key, in bytes.
const maxKey = 64

// Why a record was skipped: the label values of soonbeon_log_skipped_total.
const (
	skipBroken  = "broken"  // not protobuf of this schema
	skipVersion = "version" // min_version is above Version
	skipKind    = "kind"    // a kind that is not known, or none
	skipValue   = "value"   // a value outside of its limits
)

// Encode returns the bytes of rec as they are stored. Ticket is not part of them, nor is AtMs, except an Admitted's: when
// it was decided. A Skipped record, a visitor outside of 1 to queue.MaxVisitor bytes, a key of more than 64 bytes, or a
// batch of more than queue.MaxBatch people is refused.
func Encode(rec queue.Record) ([]byte, error) {
	switch rec.Kind {
	case queue.Entered, queue.Left, queue.Released:
		if err := queue.CheckVisitor(rec.Visitor); err != nil {
			return nil, fmt.Errorf("encode %s: %w", rec.Kind, err)
		}
	}
	var m soonbeonv1.Record
	switch rec.Kind {
	case queue.Entered:
		if len(rec.Key) > maxKey {
			return nil, fmt.Errorf("encode %s: a key's digest has at most %d bytes, not %d", rec.Kind, maxKey, len(rec.Key))
		}
		return appendEntered(make([]byte, 0, len(rec.Visitor)+len(rec.Key)+8), rec.Visitor, rec.Key), nil
	case queue.Left:
		m.Kind = &soonbeonv1.Record_Left{Left: &soonbeonv1.Left{Visitor: rec.Visitor}}
	case queue.Claimed:
		m.Kind = &soonbeonv1.Record_Claimed{Claimed: &soonbeonv1.Claimed{Issuer: rec.Issuer, Mode: soonbeonv1.Mode(rec.Mode)}}
	case queue.Admitted:
		if len(rec.People) > queue.MaxBatch {
			return nil, fmt.Errorf("encode %s: at most %d people, not %d", rec.Kind, queue.MaxBatch, len(rec.People))
		}
		a := &soonbeonv1.Admitted{Epoch: int64(rec.Epoch), AtUnixMs: rec.AtMs, People: make([]*soonbeonv1.Person, 0, len(rec.People))}
		for _, p := range rec.People {
			if err := queue.CheckVisitor(p.Visitor); err != nil {
				return nil, fmt.Errorf("encode %s: %w", rec.Kind, err)
			}
			a.People = append(a.People, &soonbeonv1.Person{Visitor: p.Visitor, Ticket: int64(p.Ticket), ExpiresUnixMs: p.ExpiresMs})
		}
		m.Kind = &soonbeonv1.Record_Admitted{Admitted: a}
	case queue.Released:
		m.Kind = &soonbeonv1.Record_Released{Released: &soonbeonv1.Released{Visitor: rec.Visitor, Ticket: int64(rec.Of)}}
	case queue.SettingsSet:
		m.Kind = &soonbeonv1.Record_Settings{Settings: &soonbeonv1.Settings{Reentry: reentryOut(rec.Reentry)}}
	case queue.Checkpoint:
		m.Kind = &soonbeonv1.Record_Checkpoint{Checkpoint: &soonbeonv1.Checkpoint{
			Epoch: int64(rec.Epoch), Served: int64(rec.Served), Reentry: reentryOut(rec.Reentry),
		}}
	case queue.Drawn:
		m.Kind = &soonbeonv1.Record_Drawn{Drawn: &soonbeonv1.Drawn{Epoch: int64(rec.Epoch), Seed: rec.Seed[:]}}
	case queue.Ended:
		if err := queue.CheckWhy(rec.Why); err != nil {
			return nil, fmt.Errorf("encode %s: %w", rec.Kind, err)
		}
		m.Kind = &soonbeonv1.Record_Ended{Ended: &soonbeonv1.Ended{Epoch: int64(rec.Epoch), Why: rec.Why}}
	case queue.Reopened:
		m.Kind = &soonbeonv1.Record_Reopened{Reopened: &soonbeonv1.Reopened{Epoch: int64(rec.Epoch)}}
	default:
		return nil, fmt.Errorf("encode: %s is not a kind that is written", rec.Kind)
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(&m)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", rec.Kind, err)
	}
	return b, nil
}

// Decode reads a stored record. It never fails: what cannot be read, or asks for a newer reader, is a Skipped record with
// this ticket. AtMs is always the atMs given, the broker's append time; only where that is 0 (not known) does an Admitted
// have the time when it was decided.
func Decode(ticket queue.Ticket, atMs int64, b []byte) queue.Record {
	rec := queue.Record{Ticket: ticket, AtMs: atMs}
	decode(b, &rec)
	return rec
}

// decode fills the rest of rec, whose Ticket and AtMs are set, and says why it was skipped; "" if it was not.
func decode(b []byte, rec *queue.Record) (skipped string) {
	if fastEntered(b, rec) {
		return ""
	}
	if skipped = slowDecode(b, rec); skipped != "" {
		*rec = queue.Record{Ticket: rec.Ticket, AtMs: rec.AtMs}
	}
	return skipped
}

// slowDecode is decode by the generated code.
func slowDecode(b []byte, rec *queue.Record) (skipped string) {
	var m soonbeonv1.Record
	if err := proto.Unmarshal(b, &m); err != nil {
		return skipBroken
	}
	if m.MinVersion > Version {
		return skipVersion
	}
	switch k := m.Kind.(type) {
	case *soonbeonv1.Record_Entered:
		rec.Kind, rec.Visitor, rec.Key = queue.Entered, k.Entered.GetVisitor(), string(k.Entered.GetKey())
		return visitorFits(rec.Visitor)
	case *soonbeonv1.Record_Left:
		rec.Kind, rec.Visitor = queue.Left, k.Left.GetVisitor()
		return visitorFits(rec.Visitor)
	case *soonbeonv1.Record_Claimed:
		// An unknown mode is still a claim: it takes the lead from whoever had it.
		rec.Kind, rec.Issuer, rec.Mode = queue.Claimed, k.Claimed.GetIssuer(), modeIn(k.Claimed.GetMode())
	case *soonbeonv1.Record_Admitted:
		rec.Kind, rec.Epoch = queue.Admitted, queue.Ticket(k.Admitted.GetEpoch())
		if rec.AtMs == 0 {
			rec.AtMs = k.Admitted.GetAtUnixMs()
		}
		if n := len(k.Admitted.GetPeople()); n > 0 {
			rec.People = make([]queue.Person, 0, n)
		}
		for _, p := range k.Admitted.GetPeople() {
			if visitorFits(p.GetVisitor()) != "" {
				return skipValue
			}
			rec.People = append(rec.People, queue.Person{Visitor: p.GetVisitor(), Ticket: queue.Ticket(p.GetTicket()), ExpiresMs: p.GetExpiresUnixMs()})
		}
	case *soonbeonv1.Record_Released:
		rec.Kind, rec.Visitor, rec.Of = queue.Released, k.Released.GetVisitor(), queue.Ticket(k.Released.GetTicket())
		return visitorFits(rec.Visitor)
	case *soonbeonv1.Record_Settings:
		var ok bool
		rec.Kind = queue.SettingsSet
		if rec.Reentry, ok = reentryIn(k.Settings.GetReentry()); !ok {
			return skipValue
		}
	case *soonbeonv1.Record_Checkpoint:
		var ok bool
		rec.Kind, rec.Epoch, rec.Served = queue.Checkpoint, queue.Ticket(k.Checkpoint.GetEpoch()), queue.Ticket(k.Checkpoint.GetServed())
		if rec.Reentry, ok = reentryIn(k.Checkpoint.GetReentry()); !ok {
			return skipValue
		}
	case *soonbeonv1.Record_Drawn:
		rec.Kind, rec.Epoch = queue.Drawn, queue.Ticket(k.Drawn.GetEpoch())
		if copy(rec.Seed[:], k.Drawn.GetSeed()) != queue.SeedBytes || len(k.Drawn.GetSeed()) != queue.SeedBytes {
			return skipValue
		}
	case *soonbeonv1.Record_Ended:
		rec.Kind, rec.Epoch, rec.Why = queue.Ended, queue.Ticket(k.Ended.GetEpoch()), k.Ended.GetWhy()
		if queue.CheckWhy(rec.Why) != nil {
			return skipValue
		}
	case *soonbeonv1.Record_Reopened:
		rec.Kind, rec.Epoch = queue.Reopened, queue.Ticket(k.Reopened.GetEpoch())
	default:
		return skipKind
	}
	return ""
}

func visitorFits(v string) (skipped string) {
	if v == "" || len(v) > queue.MaxVisitor {
		return skipValue
	}
	return ""
}

func modeIn(m soonbeonv1.Mode) queue.Mode {
	switch m {
	case soonbeonv1.Mode_MODE_REDIS:
		return queue.ModeRedis
	case soonbeonv1.Mode_MODE_DIRECT:
		return queue.ModeDirect
	}
	return queue.ModeUnknown
}

func reentryOut(r queue.Reentry) soonbeonv1.Reentry {
	if r == queue.Keep {
		return soonbeonv1.Reentry_REENTRY_KEEP
	}
	return soonbeonv1.Reentry_REENTRY_BACK
}

func reentryIn(r soonbeonv1.Reentry) (queue.Reentry, bool) {
	switch r {
	case soonbeonv1.Reentry_REENTRY_BACK:
		return queue.Back, true
	case soonbeonv1.Reentry_REENTRY_KEEP:
		return queue.Keep, true
	}
	return queue.Back, false
}
