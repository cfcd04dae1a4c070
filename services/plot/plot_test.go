package plot

import (
	"encoding/xml"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const day = 1_700_000_000_000 // Unix ms

func TestAxes(t *testing.T) {
	for v, want := range map[float64]float64{0: 1, 0.3: 0.5, 1: 1, 1.1: 2, 43: 50, 60: 100, 175: 200, 2000: 2000, math.NaN(): 1} {
		require.InDelta(t, want, niceStep(v), 1e-9, v)
	}
	for _, span := range []int64{1, 900, 12_000, 90_000, 3_600_000, 86_400_000, 8 * 86_400_000, 400 * 86_400_000} {
		require.LessOrEqual(t, len(timeTicks(day+17, day+17+span)), 12, span)
	}
}

// Names are text, whatever they hold, and numbers are finite, also where there is nothing to draw.
func TestAPictureIsWellFormed(t *testing.T) {
	for _, p := range []Plot{
		{},
		{Label: `<a & "b">`, FromMs: day, ToMs: day, Lines: []Line{{Name: "<x>", Class: "a", Fill: true, Points: []Point{{day, 0}}}}},
		{FromMs: day, ToMs: day + 60_000, Lines: []Line{{Class: "b", Points: []Point{{day, 1}, {day + 30_000, 1234567}}}},
			Levels: []Level{{"rate & more", 175}}, Shades: []Shade{{"<away>", day + 1000, day + 2000}}, Marks: []Mark{{day + 59_000, "mend"}}},
	} {
		svg := string(p.SVG())
		require.NoError(t, xml.Unmarshal([]byte(svg), new(struct{})), svg)
		require.NotContains(t, svg, "NaN")
		require.NotContains(t, svg, "Inf")
	}
	require.Contains(t, string(Plot{Lines: []Line{{Points: []Point{{0, 1234567}}}}}.SVG()), "1,000,000")
	require.Equal(t, "-1,234", Thousands(-1234))
	require.Equal(t, "-123", Thousands(-123))
	require.True(t, strings.Contains(string(Style()), "prefers-color-scheme: dark"))
}
