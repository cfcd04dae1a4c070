package page

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"golang.org/x/text/feature/plural"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// words are all that the page says in one language: one file, lang/<tag>.json, of names and texts. {name} in a text stands for a
// value; what has a value that is not known is not said.
type words struct {
	Tag  language.Tag
	Text map[string]string

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
		}
	}
	base := files[first]
	if base == nil {
		return nil, errors.Join(append(errs, fmt.Errorf("lang/%s.json is missing", first))...)
	}
	l := &languages{all: []*words{base}}
	for _, tag := range slices.Sorted(maps.Keys(files)) {
		if w := files[tag]; w != base {
			errs = append(errs, w.compare(base))
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
		return nil, fmt.Errorf("%s:%d: it is one object of names and texts: %w", name, lineOf(b, err), err)
	}
	w.printer = message.NewPrinter(w.Tag)
	return w, nil
}

var placeholder = regexp.MustCompile(`\{(\w+)\}`)

// ordinalForm is a text that each language has in forms of its own.
const ordinalForm = "ordinal."

// compare says what w lacks of base, has too much, or says of other values.
func (w *words) compare(base *words) error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("lang/"+w.Tag.String()+".json: "+format, args...))
	}
	for _, name := range slices.Sorted(maps.Keys(base.Text)) {
		if strings.HasPrefix(name, ordinalForm) && name != ordinalForm+"other" {
			continue
		}
		text, ok := w.Text[name]
		switch {
		case !ok || text == "":
			bad("%q is missing", name)
		case !slices.Equal(valuesIn(text), valuesIn(base.Text[name])):
			bad("%q has the values %v, and those of %s.json are %v", name, valuesIn(text), first, valuesIn(base.Text[name]))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.Text)) {
		if _, ok := base.Text[name]; !ok && !strings.HasPrefix(name, ordinalForm) {
			bad("there is no text called %q", name)
		}
	}
	return errors.Join(errs...)
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

// pick is the language that is asked for by name; ok is false where there is none of that name. Without a name it is the one that
// fits the header best.
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
	return nil, false
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
