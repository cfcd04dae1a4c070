package linelog

import (
	"fmt"
	"math"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/soonbeon/soonbeon/pkg/queue"
	soonbeonv1 "github.com/soonbeon/soonbeon/proto/soonbeon/v1"
)

// The fields of queue.Entry.Unknown: what was not known of the record, and of its settings. It is a format of this package
// alone and is never stored.
const (
	unknownOfEntry    = 1
	unknownOfSettings = 2
)

// encodeEntry returns the record of e. Version and Made of a queue that is being made are not part of it. Durations are
// whole milliseconds; anything else is refused rather than rounded, so that what is read equals what was written.
func encodeEntry(e *queue.Entry) ([]byte, error) {
	s := e.Settings
	var bad error
	ms := func(what string, d time.Duration) int64 {
		if d%time.Millisecond != 0 && bad == nil {
			bad = fmt.Errorf("%s is a whole number of milliseconds, not %v", what, d)
		}
		return d.Milliseconds()
	}
	set := &soonbeonv1.QueueSettings{
		Rate: s.Rate, IntervalMs: ms("interval", s.Interval), ConservativeRate: s.ConservativeRate,
		MaxActive: s.MaxActive, GrantTtlMs: ms("grant TTL", s.GrantTTL),
		// The numbers of both enums are one more than ours, those of newer versions too.
		Reentry:       soonbeonv1.Reentry(s.Reentry) + soonbeonv1.Reentry_REENTRY_BACK,
		OpensAtUnixMs: s.OpensAtMs, ClosesAtUnixMs: s.ClosesAtMs,
		Order:   soonbeonv1.Order(s.Order) + soonbeonv1.Order_ORDER_ARRIVAL,
		AdmitTo: s.AdmitTo, Message: s.Message,
	}
	for _, p := range s.Polling {
		step := &soonbeonv1.PollStep{IntervalMs: ms("an interval of polling", p.Interval), JitterMs: ms("a jitter of polling", p.Jitter)}
		if p.Position != queue.LastPosition {
			step.Position = p.Position
		}
		set.Polling = append(set.Polling, step)
	}
	for _, r := range s.Rounding {
		set.Rounding = append(set.Rounding, &soonbeonv1.RoundStep{Ahead: r.Ahead, To: r.To})
	}
	m := &soonbeonv1.CatalogEntry{
		Id: string(e.ID), Made: e.Made, Settings: set, Paused: e.Paused, Closed: e.Closed, Ending: e.Ending,
		Why: e.Why, Deleting: e.Deleting, Commitment: e.Commitment, SealedSeed: e.Sealed,
	}
	entry, settings, err := splitUnknown(e.Unknown)
	if err != nil {
		return nil, err
	}
	m.ProtoReflect().SetUnknown(entry)
	set.ProtoReflect().SetUnknown(settings)
	if bad != nil {
		return nil, bad
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(m)
}

// decodeEntry reads the record of a queue. What it says is not validated: a newer version may allow more.
func decodeEntry(version int64, b []byte) (*queue.Entry, error) {
	var m soonbeonv1.CatalogEntry
	if err := proto.Unmarshal(b, &m); err != nil {
		return nil, fmt.Errorf("not a catalogue entry: %w", err)
	}
	var bad error
	duration := func(what string, ms int64) time.Duration {
		if (ms < 0 || ms > math.MaxInt64/int64(time.Millisecond)) && bad == nil {
			bad = fmt.Errorf("%s of %d ms is beyond what can be told", what, ms)
		}
		return time.Duration(ms) * time.Millisecond
	}
	small := func(what string, n int32) uint8 {
		if (n < 0 || n > math.MaxUint8) && bad == nil {
			bad = fmt.Errorf("%s %d is not known", what, n)
		}
		return uint8(max(n, 1) - 1) // 0 says nothing, so it is the default
	}
	set := m.GetSettings()
	e := &queue.Entry{
		ID: queue.ID(m.GetId()), Version: version, Made: m.GetMade(),
		Settings: queue.Settings{
			Rate: set.GetRate(), Interval: duration("an interval", set.GetIntervalMs()), ConservativeRate: set.GetConservativeRate(),
			MaxActive: set.GetMaxActive(), GrantTTL: duration("a grant TTL", set.GetGrantTtlMs()),
			Reentry:   queue.Reentry(small("re-entry rule", int32(set.GetReentry()))),
			OpensAtMs: set.GetOpensAtUnixMs(), ClosesAtMs: set.GetClosesAtUnixMs(),
			Order:   queue.Order(small("opening order", int32(set.GetOrder()))),
			AdmitTo: set.GetAdmitTo(), Message: set.GetMessage(),
		},
		Paused: m.GetPaused(), Closed: m.GetClosed(), Ending: m.GetEnding(), Why: m.GetWhy(), Deleting: m.GetDeleting(),
		Commitment: m.GetCommitment(), Sealed: m.GetSealedSeed(),
	}
	if e.Made == 0 {
		e.Made = version
	}
	for _, p := range set.GetPolling() {
		step := queue.PollStep{Position: p.GetPosition(), Interval: duration("an interval of polling", p.GetIntervalMs()), Jitter: duration("a jitter of polling", p.GetJitterMs())}
		if step.Position == 0 {
			step.Position = queue.LastPosition
		}
		e.Settings.Polling = append(e.Settings.Polling, step)
	}
	for _, r := range set.GetRounding() {
		e.Settings.Rounding = append(e.Settings.Rounding, queue.RoundStep{Ahead: r.GetAhead(), To: r.GetTo()})
	}
	if bad != nil {
		return nil, bad
	}
	var settings []byte
	if set != nil {
		settings = set.ProtoReflect().GetUnknown()
	}
	e.Unknown = joinUnknown(m.ProtoReflect().GetUnknown(), settings)
	return e, nil
}

func joinUnknown(entry, settings []byte) (b []byte) {
	if len(entry) > 0 {
		b = protowire.AppendTag(b, unknownOfEntry, protowire.BytesType)
		b = protowire.AppendBytes(b, entry)
	}
	if len(settings) > 0 {
		b = protowire.AppendTag(b, unknownOfSettings, protowire.BytesType)
		b = protowire.AppendBytes(b, settings)
	}
	return b
}

func splitUnknown(b []byte) (entry, settings []byte, err error) {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 || typ != protowire.BytesType {
			return nil, nil, fmt.Errorf("what is kept of a newer version was altered")
		}
		v, m := protowire.ConsumeBytes(b[n:])
		if m < 0 {
			return nil, nil, fmt.Errorf("what is kept of a newer version was altered")
		}
		switch num {
		case unknownOfEntry:
			entry = v
		case unknownOfSettings:
			settings = v
		}
		b = b[n+m:]
	}
	return entry, settings, nil
}

func encodeChange(c queue.Change) ([]byte, error) {
	return proto.MarshalOptions{Deterministic: true}.Marshal(&soonbeonv1.Change{
		Who: c.Who, AtUnixMs: c.AtMs, Queue: string(c.Queue), Action: c.Action, FromJson: c.From, ToJson: c.To,
	})
}

func decodeChange(b []byte) (queue.Change, error) {
	var m soonbeonv1.Change
	if err := proto.Unmarshal(b, &m); err != nil {
		return queue.Change{}, fmt.Errorf("not a change: %w", err)
	}
	return queue.Change{Who: m.GetWho(), AtMs: m.GetAtUnixMs(), Queue: queue.ID(m.GetQueue()), Action: m.GetAction(), From: m.GetFromJson(), To: m.GetToJson()}, nil
}
