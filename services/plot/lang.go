package plot

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"html"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Languages are those that a report can be written in; the first is the one it is made in.
var Languages = []string{"en", "ko"}

//go:embed ko.txt
var korean string

// Page writes a page, made in English by english, in the language lang: "" and "en" as it is, "ko" by the table in ko.txt. What stands in <code> and <style>
// stays, as does what the table doesn't have. The page is well-formed XML, before and after.
func Page(w io.Writer, lang string, english func(io.Writer) error) error {
	switch lang {
	case "", "en":
		return english(w)
	case "ko":
	default:
		return fmt.Errorf("there is no language %.20q: reports are written in %s", lang, strings.Join(Languages, ", "))
	}
	var page bytes.Buffer
	if err := english(&page); err != nil {
		return err
	}
	_, err := io.WriteString(w, koreanTable().page(page.String()))
	return err
}

var koreanTable = sync.OnceValue(func() *table { return parseTable(korean) })

// table is what is said instead.
type table struct {
	exact    map[string]string
	patterns []pattern // the most specific first
}

type pattern struct {
	literal int // letters that are no hole
	from    *regexp.Regexp
	holes   []string // in the order of from
	to      string
}

var hole = regexp.MustCompile(`\{\d\}`)

func parseTable(text string) *table {
	t := &table{exact: map[string]string{}}
	from := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		to, indented := strings.CutPrefix(line, "\t")
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case !indented:
			from = line
		case !hole.MatchString(from):
			t.exact[from] = to
		default:
			var re strings.Builder
			at := 0
			for _, h := range hole.FindAllStringIndex(from, -1) {
				re.WriteString(regexp.QuoteMeta(from[at:h[0]]) + "(.+?)")
				at = h[1]
			}
			re.WriteString(regexp.QuoteMeta(from[at:]))
			t.patterns = append(t.patterns, pattern{len(hole.ReplaceAllString(from, "")), regexp.MustCompile("(?s)^" + re.String() + "$"),
				hole.FindAllString(from, -1), to})
		}
	}
	slices.SortStableFunc(t.patterns, func(a, b pattern) int { return cmp.Compare(b.literal, a.literal) })
	return t
}

var (
	latin  = regexp.MustCompile(`[A-Za-z]`)
	spaces = regexp.MustCompile(`\s+`)
)

// say is s in the table's language, or as it is.
func (t *table) say(s string) string {
	s = strings.TrimSpace(spaces.ReplaceAllString(s, " "))
	if to, ok := t.exact[s]; ok {
		return to
	}
	if short, ok := strings.CutSuffix(s, "."); ok && t.exact[short] != "" { // what is a sentence here and none there
		return t.exact[short] + "."
	}
	if !latin.MatchString(s) {
		return s
	}
	for _, p := range t.patterns {
		m := p.from.FindStringSubmatch(s)
		if m == nil {
			continue
		}
		said := map[string]string{}
		for i, h := range p.holes {
			said[h] = t.say(m[i+1])
		}
		return hole.ReplaceAllStringFunc(p.to, func(h string) string { return said[h] })
	}
	return s
}

var (
	token = regexp.MustCompile(`(?s)<style>.*?</style>|<code>.*?</code>|<[^>]*>|[^<]+`)
	label = regexp.MustCompile(`aria-label="([^"]*)"`)
)

func (t *table) page(page string) string {
	return token.ReplaceAllStringFunc(page, func(part string) string {
		switch {
		case strings.HasPrefix(part, "<html "):
			return strings.Replace(part, `lang="en"`, `lang="ko"`, 1)
		case strings.HasPrefix(part, "<style>"), strings.HasPrefix(part, "<code>"):
			return part
		case part[0] == '<':
			return label.ReplaceAllStringFunc(part, func(a string) string {
				return `aria-label="` + html.EscapeString(t.say(html.UnescapeString(label.FindStringSubmatch(a)[1]))) + `"`
			})
		}
		text := html.UnescapeString(part)
		trimmed := strings.TrimSpace(text)
		if trimmed == "" {
			return part
		}
		before, after, _ := strings.Cut(text, trimmed)
		return before + html.EscapeString(t.say(trimmed)) + after
	})
}
