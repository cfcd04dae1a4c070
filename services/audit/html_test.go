package audit

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/plot"
	"github.com/soonbeon/soonbeon/services/plot/plottest"
)

func wellFormed(t *testing.T, page []byte) string {
	t.Helper()
	require.True(t, bytes.HasPrefix(page, []byte("<!doctype html>")), "%.80s", page)
	return plottest.WellFormed(t, string(page))
}

// inKorean sees that all of the page is said in Korean but for the names among others.
func inKorean(t *testing.T, p Page, others ...string) string {
	t.Helper()
	var b strings.Builder
	require.NoError(t, p.Write(&b, "ko"))
	return plottest.Korean(t, b.String(), others...)
}

func TestThePageIsWholeAndWellFormed(t *testing.T) {
	r := sale(5000).audit(t, func(c *Config) { c.Rate = 175 })
	var b bytes.Buffer
	p := Page{Report: r, Title: `Drill <main> & "more"`, Footer: "soonbeon",
		Marks:    []plot.Mark{{AtMs: r.Outages[0].FromMs - 2000, Label: "break: kill <redis>"}, {AtMs: r.Outages[0].ToMs, Label: "mend"}},
		Sections: []Section{{Title: "Timeline", Body: "<p>00:12 break</p>"}}}
	require.NoError(t, p.Write(&b, "en"))
	text := wellFormed(t, b.Bytes())
	for _, want := range []string{`Drill <main> & "more"`, "Everything held.", "5,200", "4,900", "break: kill <redis>", "mend", "Timeline", "00:12 break",
		"Admissions a second", "rate: 175/s", "Length of the line", "Waiting times", "without Redis, 4.0 s", "issuer-a", "shaded: without Redis"} {
		require.Contains(t, text, want)
	}
	require.Equal(t, 3, strings.Count(b.String(), "<svg "))
	p.Title, p.Sections, p.Marks = "", nil, nil
	korean := inKorean(t, p, "issuer-a", "issuer-b")
	for _, want := range []string{"대기열 main 감사", "모든 약속이 지켜졌습니다.", "초당 입장", "Redis 없음, 4.0 s", "속도: 초당 175명"} {
		require.Contains(t, korean, want)
	}
	require.NotContains(t, b.String(), "visitor-")
	require.Contains(t, b.String(), "prefers-color-scheme: dark")
	if path := os.Getenv("SOONBEON_AUDIT_PAGE"); path != "" { // to be looked at
		require.NoError(t, os.WriteFile(path, b.Bytes(), 0o600))
	}
}

func TestThePageOfAFaultSaysWhatToDo(t *testing.T) {
	w := write()
	e := w.claim(`<issuer "&>`, queue.ModeRedis)
	w.enter("ann")
	w.add(queue.Record{Kind: queue.Skipped})
	w.admit(e, in("bob", w.enter("bob")))
	var b bytes.Buffer
	require.NoError(t, w.audit(t).WriteHTML(&b, "en"))
	text := wellFormed(t, b.Bytes())
	for _, want := range []string{"Something is wrong.", "people were passed (1)", "record 5 (offset 4)", "they wait for ever", "What to do:", `<issuer "&>`, "Notes", "can't be read"} {
		require.Contains(t, text, want)
	}
	korean := inKorean(t, Page{Report: w.audit(t)}, `<issuer "&>`)
	for _, want := range []string{"문제가 있습니다.", "앞지름을 당한 사람이 있음 (1)", "기록 5 (오프셋 4)", "할 일:", "읽을 수 없는 기록"} {
		require.Contains(t, korean, want)
	}
}

// Whatever an audit finds, it is said in Korean, too.
func TestEachFindingIsSaidInKorean(t *testing.T) {
	r := write().audit(t)
	for _, a := range abouts() {
		r.Findings = append(r.Findings, Finding{Kind: a.kind, Wrong: a.wrong, Title: a.title, Means: a.means, Do: a.do, Count: 3})
	}
	inKorean(t, Page{Report: r})
}

func TestThePageOfAnEmptyLog(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, write().audit(t).WriteHTML(&b, "en"))
	require.Contains(t, wellFormed(t, b.Bytes()), "an empty log")
}

// The steps of time widen until all fit, whatever the log's span; the longest line of each is kept.
func TestStepsHoldAnySpan(t *testing.T) {
	var l lengths
	l.start(day)
	for i := range int64(10_000) {
		l.note(day+i*1000, i)
	}
	l.note(day-5000, 3) // a clock that went back
	require.LessOrEqual(t, len(l.most), points)
	require.GreaterOrEqual(t, len(l.most), points/4)
	require.EqualValues(t, 9999, l.most[len(l.most)-1])
	for i, n := range l.most[:len(l.most)-1] {
		require.Equal(t, ((int64(i)+1)*l.width-1)/1000, n, "step %d", i)
	}
}
