package load

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestAppointmentsGoBeforeNewcomers(t *testing.T) {
	now := time.Now()
	s := newSchedule(make([]visitor, 3), 0, now)
	v, _, _ := s.pick(now)
	s.later(v, now.Add(time.Second))
	if next, _, _ := s.pick(now); next != &s.crowd[1] {
		t.Error("a free worker did not let the next one in")
	}
	if next, _, _ := s.pick(now.Add(time.Second)); next != v {
		t.Error("somebody new went before who was told to come now")
	}
}

func TestNewcomersAreNotShutOutByAppointments(t *testing.T) {
	now := time.Now()
	s := newSchedule(make([]visitor, 100), 0, now)
	busy := make([]visitor, 10)
	for i := range busy {
		s.later(&busy[i], now)
	}
	newcomers := 0
	for range 200 {
		v, _, _ := s.pick(now)
		if v == &s.crowd[newcomers] {
			newcomers++
			continue
		}
		s.later(v, now)
	}
	if newcomers != 200/(fairness+1) {
		t.Errorf("%d of 200 turns went to newcomers", newcomers)
	}
}

func TestScheduleHandsOutInTimeAndEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSchedule(make([]visitor, 100), 10, time.Now())
		turns := make(chan *visitor)
		go s.run(t.Context(), turns)
		acts := 0
		for v := range turns {
			if late := time.Since(v.due); late != 0 {
				t.Fatalf("%v late", late)
			}
			acts++
			if v.attempt++; v.attempt < 3 {
				// Sooner than whoever the schedule waits for by now.
				s.later(v, time.Now().Add(time.Duration(v.attempt)*40*time.Millisecond))
			} else {
				s.end()
			}
		}
		if acts != 300 {
			t.Errorf("%d turns", acts)
		}
	})
}

func TestScheduleStopsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := newSchedule(make([]visitor, 1), 0.001, time.Now().Add(time.Hour))
		turns := make(chan *visitor)
		go s.run(ctx, turns)
		synctest.Wait()
		cancel()
		if _, open := <-turns; open {
			t.Error("somebody came after the end")
		}
	})
}

func TestSpread(t *testing.T) {
	for share, want := range map[float64]int{0: 0, 0.01: 3, 0.1: 30, 0.5: 150, 1: 300} {
		n := 0
		spread(make([]visitor, 300), share, func(*visitor) { n++ })
		if n != want {
			t.Errorf("%v of 300 is %d, want %d", share, n, want)
		}
	}
}
