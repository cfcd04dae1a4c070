package plot

import (
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each English line has a Korean one with the same holes.
func TestTheTableOfKorean(t *testing.T) {
	seen := map[string]bool{}
	from := ""
	for line := range strings.Lines(korean) {
		line = strings.TrimSuffix(line, "\n")
		to, indented := strings.CutPrefix(line, "\t")
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case !indented:
			require.Empty(t, from, "nothing is said in Korean for it")
			require.False(t, seen[line], "twice: %s", line)
			from, seen[line] = line, true
		default:
			require.NotEmpty(t, from, line)
			holes := func(s string) []string { return slices.Sorted(slices.Values(hole.FindAllString(s, -1))) }
			require.Equal(t, holes(from), holes(to), from)
			if hole.ReplaceAllString(from, "") != hole.ReplaceAllString(to, "") && latin.MatchString(strings.ReplaceAll(hole.ReplaceAllString(from, ""), "in", "")) {
				require.Regexp(t, regexp.MustCompile(`[가-힣]|p99`), to, from)
			}
			from = ""
		}
	}
	require.Empty(t, from)
}

func TestAPageInKorean(t *testing.T) {
	english := func(w io.Writer) error {
		_, err := io.WriteString(w, `<html lang="en"><style>.lost{}</style><h3>Broken: rate exceeded (3 times)</h3><p>300 of 20,000 got in.</p>`+
			`<svg aria-label="Waits over time"><text>half of those let in</text></svg><td>every token verified; 7 still wait</td><code>lost</code>`+
			`<p>highest second: 175, expected at most 193; 12 batches, the largest 18</p><p>a &amp; b</p><p> 12 ms </p></html>`)
		return err
	}
	var b strings.Builder
	require.NoError(t, Page(&b, "ko", english))
	require.Equal(t, `<html lang="ko"><style>.lost{}</style><h3>어긋남: 속도 초과 (3회)</h3><p>20,000명 중 300명이 입장했습니다.</p>`+
		`<svg aria-label="시간에 따른 대기 시간"><text>입장한 사람의 절반</text></svg><td>모든 토큰을 검증함. 7명이 아직 대기 중</td><code>lost</code>`+
		`<p>1초 최대 175명 (허용 193명), 묶음 12개, 가장 큰 묶음 18명</p><p>a &amp; b</p><p> 12 ms </p></html>`, b.String())
	b.Reset()
	require.NoError(t, Page(&b, "", english))
	require.Contains(t, b.String(), "rate exceeded")
	require.ErrorContains(t, Page(&b, "de", english), `no language "de": reports are written in en, ko`)
}
