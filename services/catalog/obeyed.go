package catalog

import (
	"math"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

// obeyed is e as this version can obey it. What a newer version has written may be outside of the limits that are known here:
// then each setting that is gets the nearest value within them, or its default, so that nobody downstream has to think of it. The error
// says what was outside; the record in the log stays as it is.
func obeyed(e *queue.Entry) (*queue.Entry, error) {
	err := e.Settings.Validate()
	if err == nil {
		return e, nil
	}
	s, def := e.Settings, queue.DefaultSettings()
	s.Rate = within(s.Rate, queue.MinRate, queue.MaxRate, def.Rate)
	s.Interval = min(max(s.Interval, queue.MinInterval), queue.MaxInterval)
	s.Rate = min(s.Rate, queue.MaxBatch/s.Interval.Seconds())
	s.ConservativeRate = min(within(s.ConservativeRate, queue.MinRate, queue.MaxRate, def.ConservativeRate), s.Rate)
	s.MaxActive = min(max(s.MaxActive, 0), queue.MaxMaxActive)
	s.GrantTTL = min(max(s.GrantTTL, queue.MinGrantTTL), queue.MaxGrantTTL)
	if s.Reentry > queue.Keep {
		s.Reentry = def.Reentry
	}
	if s.Order > queue.ByDraw {
		s.Order = def.Order
	}
	s.OpensAtMs, s.ClosesAtMs = max(s.OpensAtMs, 0), max(s.ClosesAtMs, 0)
	// These stand by themselves, so each is tried in settings that are right otherwise.
	try := func(change func(*queue.Settings)) bool {
		alone := def
		change(&alone)
		return alone.Validate() == nil
	}
	if !try(func(d *queue.Settings) { d.AdmitTo = s.AdmitTo }) {
		s.AdmitTo = ""
	}
	if !try(func(d *queue.Settings) { d.Message = s.Message }) {
		s.Message = ""
	}
	if !try(func(d *queue.Settings) { d.Polling = s.Polling }) {
		s.Polling = def.Polling
	}
	if !try(func(d *queue.Settings) { d.Rounding = s.Rounding }) {
		s.Rounding = nil
	}
	safe := *e
	safe.Settings = s
	return &safe, err
}

func within(v, least, most, def float64) float64 {
	if math.IsNaN(v) {
		return def
	}
	return min(max(v, least), most)
}
