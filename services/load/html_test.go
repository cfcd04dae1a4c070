package load

import (
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soonbeon/soonbeon/services/plot/plottest"
)

// inKorean sees that all of the page is said in Korean.
func inKorean(t *testing.T, r *Report) string {
	t.Helper()
	var b strings.Builder
	if err := r.WriteHTML(&b, "ko"); err != nil {
		t.Fatal(err)
	}
	return plottest.Korean(t, b.String(), `"expired"`)
}

func TestTheRunAsAPage(t *testing.T) {
	file := filepath.Join(t.TempDir(), "run.html")
	synctest.Test(t, func(t *testing.T) {
		room := newRoom(t, 175)
		cfg := crowd(room, 2000)
		cfg.HTML, cfg.Rate = file, 400
		rep, out := mustRun(t, t.Context(), cfg)
		if !rep.OK() || !strings.HasSuffix(out, "report      "+file+"\n") {
			t.Fatalf("not OK, or no word of the page:\n%s", out)
		}
		s, entered, admitted := rep.course.series, int64(0), int64(0)
		for i := range s.steps {
			entered, admitted = entered+s.steps[i].entered, admitted+s.steps[i].admitted
		}
		if entered != 2000 || admitted != 2000 {
			t.Errorf("the steps have %d entries and %d admissions", entered, admitted)
		}
		if slices.Max(rep.course.highest) != 175 {
			t.Errorf("the highest second is drawn as %d", slices.Max(rep.course.highest))
		}
		for i, n := range rep.course.highest { // from its second second on, until the line is empty
			if at := time.Duration(i) * s.width; at > 2*time.Second && at < 10*time.Second && n < 174 {
				t.Errorf("step %d: %d", i, n)
			}
		}
		half := &s.steps[len(s.steps)/2].waits
		if w := half.at(50); w < 2*time.Second || w > 8*time.Second {
			t.Errorf("half of those let in half-way waited %v", w)
		}
		for _, want := range []string{"대기열 main 부하 시험", "모든 약속이 지켜졌습니다.", "2,000명 중 2,000명이 입장했습니다.", "아무도 앞지르지 않음 (2,000건 비교)", "초당 접수"} {
			if !strings.Contains(inKorean(t, rep), want) {
				t.Errorf("the page in Korean lacks %q", want)
			}
		}
	})
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	text := plottest.WellFormed(t, page)
	for _, want := range []string{"Crowd at queue main", "Everything held.", "2,000 of 2,000 got in", "Arrivals a second", "Admissions a second", "rate: 175/s",
		"In line", "Waits", "How quick answers were", "no one passed anyone (2,000 compared)", "every token verified"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if n := strings.Count(page, "<svg "); n != 5 {
		t.Errorf("%d pictures", n)
	}
	if !strings.Contains(page, "prefers-color-scheme: dark") || strings.Contains(page, "ZgotmplZ") {
		t.Error("the style is not what it should be")
	}
	if to := os.Getenv("SOONBEON_LOAD_PAGE"); to != "" { // to be looked at
		if err := os.WriteFile(to, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestThePageOfABadRun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "run.html")
	synctest.Test(t, func(t *testing.T) {
		room := newRoom(t, 50)
		room.over = map[int64]bool{250: true}
		room.burstAt = 100
		cfg := crowd(room, 300)
		cfg.HTML, cfg.JSON = file, true
		rep, out := mustRun(t, t.Context(), cfg)
		if !strings.HasSuffix(out, "}\n") {
			t.Errorf("more than JSON: %s", out)
		}
		inKorean(t, rep)
	})
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := plottest.WellFormed(t, string(b))
	for _, want := range []string{"A promise was broken.", "299 of 300 got in", "Broken: rate exceeded (once)", "Broken: lost (once)", "its wait is over"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

// A page that can't be written is known before a crowd is sent.
func TestAPageThatCantBeWritten(t *testing.T) {
	room := newRoom(t, 50)
	cfg := crowd(room, 10)
	cfg.HTML = filepath.Join(t.TempDir(), "nowhere", "run.html")
	_, err := Run(t.Context(), cfg, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "--html") || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the error is %v", err)
	}
	if len(room.line) != 0 {
		t.Error("somebody came")
	}
}

// The page of nobody, and of a run that was cut at once, is a page.
func TestThePageOfNothing(t *testing.T) {
	for _, r := range []*Report{{Queue: "a&b"}, {Queue: "main", Visitors: 5, Cut: "interrupted", course: course{series: series{width: time.Second, steps: make([]moments, 1)}, highest: []int64{0}}}} {
		var b strings.Builder
		if err := r.WriteHTML(&b, "en"); err != nil {
			t.Fatal(err)
		}
		plottest.WellFormed(t, b.String())
	}
}

// Steps widen until all fit, and lose nothing.
func TestStepsHoldAnySpan(t *testing.T) {
	var s series
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range 20_000 {
		p := s.at(time.Duration(i) * time.Second)
		p.entered++
		p.waits.add(time.Duration(rnd.IntN(1000)+1) * time.Millisecond)
	}
	s.at(-time.Hour).failed++ // a clock that went back
	if n := len(s.steps); n > maxSteps || n < maxSteps/3 {
		t.Errorf("%d steps", n)
	}
	var all moments
	for i := range s.steps {
		all.add(&s.steps[i])
	}
	if all.entered != 20_000 || all.failed != 1 || all.waits.n != 20_000 {
		t.Errorf("%d entered, %d failed, %d waits", all.entered, all.failed, all.waits.n)
	}
	for percent, want := range map[int64]time.Duration{50: 500 * time.Millisecond, 99: 990 * time.Millisecond} {
		if got := all.waits.at(percent); got < want*98/100 || got > want*121/100 {
			t.Errorf("p%d is %v", percent, got)
		}
	}
	if new(rough).at(50) != 0 {
		t.Error("something of nothing")
	}
	s.at(time.Duration(1<<63 - 1))
}
