package dashboard

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/linelog"
	"github.com/soonbeon/soonbeon/services/catalog"
	"github.com/soonbeon/soonbeon/services/httpapi"
)

func fresh(t *testing.T) *Service {
	s, err := New(newWorld().config(), zap.NewNop(), prometheus.NewRegistry())
	require.NoError(t, err)
	return s
}

func TestThePageNeedsNothingElse(t *testing.T) {
	s := fresh(t)
	total := 0
	for name, f := range s.files {
		total += len(f.body)
		require.NotEmpty(t, f.kind, name)
		for _, outside := range []string{"http://", "https://", "innerHTML", "eval(", "document.write", "style="} {
			text := strings.ReplaceAll(string(f.body), "http://www.w3.org/2000/svg", "")
			require.NotContains(t, text, outside, name)
		}
	}
	require.Less(t, total, 70<<10, "bytes, with all languages and not compressed")

	page := record(t, s, "GET", "/dashboard/")
	require.Equal(t, 200, page.Code)
	require.Equal(t, "text/html; charset=utf-8", page.Header().Get("Content-Type"))
	for _, part := range []string{"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"} {
		require.Contains(t, page.Header().Get("Content-Security-Policy"), part)
	}
	require.NotContains(t, page.Header().Get("Content-Security-Policy"), "unsafe")
	require.Equal(t, "nosniff", page.Header().Get("X-Content-Type-Options"))
	for _, m := range regexp.MustCompile(`(?:href|src)="([^"]*)"|from "\./([^"]*)"|fetch\("([^"]*)"`).FindAllStringSubmatch(allText(s), -1) {
		name := m[1] + m[2] + m[3]
		if name != "data:," {
			require.Contains(t, s.files, name)
		}
	}
	require.Equal(t, 304, record(t, s, "GET", "/dashboard/", "If-None-Match", page.Header().Get("ETag")).Code)
	for _, path := range []string{"/", "/dashboard"} {
		w := record(t, s, "GET", path)
		require.Equal(t, 302, w.Code)
		require.Equal(t, "/dashboard/", w.Header().Get("Location"))
	}
	for _, path := range []string{"/dashboard/nothing.js", "/dashboard/..%2fdoc.go", "/dashboard/lang/en.json"} {
		require.Equal(t, 404, record(t, s, "GET", path).Code, path)
	}
	require.Equal(t, 405, record(t, s, "POST", "/dashboard/events").Code)
}

func allText(s *Service) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(s.files)) {
		if name != words {
			b.Write(s.files[name].body)
		}
	}
	return b.String()
}

var hole = regexp.MustCompile(`\{\w+\}`)

// Every language says all there is to say, with the same values, and no text is left that nobody says.
func TestLanguagesAreComplete(t *testing.T) {
	s := fresh(t)
	var all map[string]map[string]string
	require.NoError(t, json.Unmarshal(s.files[words].body, &all))
	require.Len(t, all, 2)
	en := all["en"]
	for tag, texts := range all {
		require.ElementsMatch(t, slices.Collect(maps.Keys(en)), slices.Collect(maps.Keys(texts)), tag)
		for name, text := range texts {
			require.NotEmpty(t, strings.TrimSpace(text), "%s: %s", tag, name)
			holes := func(s string) []string { return slices.Sorted(slices.Values(hole.FindAllString(s, -1))) }
			require.Equal(t, holes(en[name]), holes(text), "%s: %s", tag, name)
			if tag == "ko" && name != "signin.where" {
				require.Regexp(t, `[가-힣]`, text, name)
			}
		}
	}

	code := allText(s)
	used := map[string]bool{"name": true}
	for _, m := range regexp.MustCompile(`\bt\("([^"]+)"[,)]`).FindAllStringSubmatch(code, -1) {
		used[m[1]] = true
	}
	// Those whose name is put together.
	for prefix, names := range map[string][]string{
		"link.": {"live", "lost"}, "mode.": {"redis", "direct", "direct.only"}, "key.": {"target", "max"},
		"col.":     {"queue", "state", "waiting", "rate", "target", "active", "oldest", "why"},
		"tile.":    {"waiting", "rate", "active", "half", "nine", "oldest", "behind"},
		"plot.":    {"waiting", "rate", "active", "waits", "behind"},
		"fact.":    {"mode", "leader", "served", "seq", "entered", "moved", "admitted"},
		"changes.": {"at", "who", "action", "what"},
		"action.": {catalog.ActionCreate, catalog.ActionAdopt, catalog.ActionSet, catalog.ActionPause, catalog.ActionResume, catalog.ActionClose,
			catalog.ActionDelete, catalog.ActionGone},
		"why.":     {"empty", "paced", "full", "paused", "closed", "not_open", "behind", "view_away", "fenced"},
		"trouble.": {linelog.Trimmed.String(), linelog.Short.String(), linelog.Recreated.String(), linelog.Gone.String(), unreadable},
		"reason.":  {"closed", "sold_out"},
		"rate.":    {"rate"}, "pause.": {"message"}, "resume.": {"message"}, "soldout.": {"name"},
	} {
		for _, n := range names {
			used[prefix+n] = true
		}
	}
	for _, c := range httpapi.Codes() { // whatever the API may answer, it is said in the reader's language
		used["error."+string(c.Code)] = true
	}
	for _, state := range catalog.States() {
		used["state."+string(state)] = true
	}
	for _, action := range []string{"rate", "pause", "resume", "close", "soldout"} {
		for _, n := range []string{"button", "ask", "yes", "done"} {
			used[action+"."+n] = true
		}
	}
	var wrong []string
	for name := range used {
		if en[name] == "" {
			wrong = append(wrong, fmt.Sprintf("%s is said, and no language has it", name))
		}
	}
	for name := range en {
		if !used[name] {
			wrong = append(wrong, fmt.Sprintf("%s is never said", name))
		}
	}
	require.Empty(t, wrong)
}
