package plottest

import (
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// WellFormed reads the page as XML, which is stricter than HTML, sees that it needs nothing else, and returns all its text but for that of <style>
// and <code>.
func WellFormed(t testing.TB, page string) string {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(page))
	var text strings.Builder
	var within []string
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return text.String()
		}
		if err != nil {
			t.Fatal(err)
		}
		switch x := token.(type) {
		case xml.CharData:
			if !slices.Contains(within, "style") && !slices.Contains(within, "code") {
				text.Write(x)
				text.WriteByte('\n')
			}
		case xml.EndElement:
			within = within[:len(within)-1]
		case xml.StartElement:
			within = append(within, x.Name.Local)
			if slices.Contains([]string{"script", "link", "img", "iframe", "object", "embed"}, x.Name.Local) {
				t.Errorf("a <%s>", x.Name.Local)
			}
			for _, a := range x.Attr {
				for _, bad := range []string{"//", "NaN", "Inf", "ZgotmplZ"} {
					if strings.Contains(a.Value, bad) {
						t.Errorf("<%s %s=%.60q>", x.Name.Local, a.Name.Local, a.Value)
					}
				}
			}
		}
	}
}

// names are words that are said in every language.
var names = regexp.MustCompile(`\b(Redis|Kafka|UTC|Unix|NTP|ms|s|p50|p90|p99|issuer|projector|soonbeon|replay|log trouble|retryAfterMs|main|host|kafka-console-consumer)\b|--[a-z-]+`)

var word = regexp.MustCompile(`[A-Za-z]{3,}[A-Za-z' ]*`)

// Korean is WellFormed of a page in Korean, and sees that nothing is left in English but names, among them others.
func Korean(t testing.TB, page string, others ...string) string {
	t.Helper()
	text := WellFormed(t, page)
	if !strings.Contains(page, `<html lang="ko">`) {
		t.Error("the page doesn't say that it is in Korean")
	}
	for line := range strings.Lines(text) {
		rest := names.ReplaceAllString(line, "")
		for _, o := range others {
			rest = strings.ReplaceAll(rest, o, "")
		}
		if w := word.FindString(rest); w != "" {
			t.Errorf("%q is left in English: %s", w, strings.TrimSpace(line))
		}
	}
	return text
}
