package page

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/text/feature/plural"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// words are all that the page says in one language: one file, lang/<tag>.json, of names and texts. {name} in a text stands for a
// value; what has a value that is not known is not said.
type words struct {
	Tag  language.Tag
	Text map[string]string

	lines   map[string]int // where each name is in its file; "": the end of it
	printer *message.Printer
}

// languages are those that there are, the first of which is spoken to who wants none of them.
type languages struct {
	all     []*words
	matcher language.Matcher
}

// first is the language whose names every other file has to have. It is the first of all.
const first = "en"

// readLanguages reads lang/*.json of each of the folders; a later one stands for an earlier one of the same name. The error tells
// every mistake, and the file that it is in.
func readLanguages(folders ...fs.FS) (*languages, error) {
	files := map[string]*words{}
	var base *words // ours, also where operators word the same language in their own way
	var errs []error
	for _, folder := range folders {
		names, err := fs.Glob(folder, "lang/*.json")
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			w, err := readWords(folder, name)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			files[w.Tag.String()] = w
			if base == nil && w.Tag.String() == first {
				base = w
			}
		}
	}
	if base == nil {
		return nil, errors.Join(append(errs, fmt.Errorf("lang/%s.json is missing", first))...)
	}
	l := &languages{all: []*words{files[first]}}
	for _, tag := range slices.Sorted(maps.Keys(files)) {
		w := files[tag]
		if w != base {
			errs = append(errs, w.compare(base))
		}
		if tag != first {
			l.all = append(l.all, w)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	var tags []language.Tag
	for _, w := range l.all {
		tags = append(tags, w.Tag)
	}
	l.matcher = language.NewMatcher(tags)
	return l, nil
}

func readWords(folder fs.FS, name string) (*words, error) {
	b, err := fs.ReadFile(folder, name)
	if err != nil {
		return nil, err
	}
	w := &words{}
	if w.Tag, err = language.Parse(strings.TrimSuffix(path.Base(name), ".json")); err != nil {
		return nil, fmt.Errorf("%s: the name is a language tag, as in ko.json or pt-BR.json", name)
	}
	if err := json.Unmarshal(b, &w.Text); err != nil {
		line := lineOf(b, err)
		if wrong := new(json.SemanticError); errors.As(err, &wrong) && wrong.JSONPointer != "" {
			return nil, fmt.Errorf("%s:%d: what %q is has to be a text, in quotes", name, line, wrong.JSONPointer.LastToken())
		}
		return nil, fmt.Errorf("%s:%d: it is one object of names and texts: %w", name, line, err)
	}
	w.lines = linesOf(b)
	w.printer = message.NewPrinter(w.Tag)
	return w, nil
}

var placeholder = regexp.MustCompile(`\{(\w+)\}`)

// ordinalForm is a text that each language has in forms of its own.
const ordinalForm = "ordinal."

// compare says what w lacks of base, has too much, or says of other values.
func (w *words) compare(base *words) error {
	var errs []error
	bad := func(name, format string, args ...any) {
		errs = append(errs, fmt.Errorf("lang/%s.json:%d: %q %s", w.Tag, w.line(name), name, fmt.Sprintf(format, args...)))
	}
	for _, name := range slices.Sorted(maps.Keys(base.Text)) {
		if strings.HasPrefix(name, ordinalForm) && name != ordinalForm+"other" {
			continue
		}
		text, ok := w.Text[name]
		switch {
		case !ok || text == "":
			bad(name, "is missing")
		case !slices.Equal(valuesIn(text), valuesIn(base.Text[name])):
			bad(name, "has the values %v, and those of our own %s.json are %v", valuesIn(text), first, valuesIn(base.Text[name]))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.Text)) {
		if _, ok := base.Text[name]; !ok && !strings.HasPrefix(name, ordinalForm) {
			bad(name, "is no text that is said anywhere")
		}
	}
	return errors.Join(errs...)
}

// linesOf tells the line of each name in an object, and under "" that of its end. What it is was checked before.
func linesOf(b []byte) map[string]int {
	lines := map[string]int{}
	dec := jsontext.NewDecoder(bytes.NewReader(b))
	here := func() int { return 1 + bytes.Count(b[:dec.InputOffset()], []byte("\n")) }
	for {
		t, err := dec.ReadToken()
		switch {
		case err != nil || t.Kind() == '}':
			lines[""] = here()
			return lines
		case t.Kind() == '"':
			lines[t.String()] = here()
			if dec.SkipValue() != nil {
				return lines
			}
		}
	}
}

// line is that of name, or the end of the file, where it could be.
func (w *words) line(name string) int {
	if n := w.lines[name]; n > 0 {
		return n
	}
	return w.lines[""]
}

// valuesIn are the names in braces, sorted, each once.
func valuesIn(text string) []string {
	var names []string
	for _, m := range placeholder.FindAllStringSubmatch(text, -1) {
		names = append(names, m[1])
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// pick is the language that is asked for by name, also by that of a country's (en-US); ok is false where there is none like it.
// Without a name it is the one that fits the header best.
func (l *languages) pick(name, acceptLanguage string) (w *words, ok bool) {
	if name == "" {
		// A header that can't be read wants nothing in particular. Long ones are not read to their end.
		wanted, _, _ := language.ParseAcceptLanguage(acceptLanguage[:min(len(acceptLanguage), 200)])
		_, i, _ := l.matcher.Match(wanted...)
		return l.all[i], true
	}
	for _, w := range l.all {
		if strings.EqualFold(w.Tag.String(), name) {
			return w, true
		}
	}
	if tag, err := language.Parse(name[:min(len(name), 35)]); err == nil {
		_, i, sure := l.matcher.Match(tag)
		if sure >= language.High && baseOf(tag) == baseOf(l.all[i].Tag) { // and not one that its speakers are said to know as well
			return l.all[i], true
		}
	}
	return nil, false
}

func baseOf(t language.Tag) language.Base {
	b, _ := t.Base()
	return b
}

// say is the first of the texts whose values are all known; "" where there is none.
func (w *words) say(names string, values map[string]string) string {
	for name := range strings.FieldsSeq(names) {
		if text, ok := fill(w.Text[name], values); ok {
			return text
		}
	}
	return ""
}

func fill(text string, values map[string]string) (string, bool) {
	ok := text != ""
	filled := placeholder.ReplaceAllStringFunc(text, func(m string) string {
		v := values[m[1:len(m)-1]]
		ok = ok && v != ""
		return v
	})
	return filled, ok
}

// number writes n as readers of the language do.
func (w *words) number(n int64) string { return w.printer.Sprintf("%d", n) }

// ordinal writes n as a place: "1,234th".
func (w *words) ordinal(n int64) string {
	names := map[plural.Form]string{plural.One: "one", plural.Two: "two", plural.Few: "few", plural.Many: "many", plural.Zero: "zero"}
	form, ok := names[plural.Ordinal.MatchPlural(w.Tag, int(n%1_000_000), 0, 0, 0, 0)]
	text := w.Text[ordinalForm+form]
	if !ok || text == "" {
		text = w.Text[ordinalForm+"other"]
	}
	return strings.ReplaceAll(text, "{n}", w.number(n))
}

// tags are the names of all languages.
func (l *languages) tags() string {
	var tags []string
	for _, w := range l.all {
		tags = append(tags, w.Tag.String())
	}
	return strings.Join(tags, ", ")
}
