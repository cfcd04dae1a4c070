package page

import (
	"bytes"
	"errors"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"regexp"
	"strings"
	"text/template/parse"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

// look is the page's template. It stands on two parts (look/parts.html): {{template "head" .}} within <head>, which brings styles and
// scripts, and {{template "line" .}} within <body>, which is what people read.
type look struct {
	template *template.Template
	styles   []string
}

// shown is what a template is given. What is not exported is for the parts.
type shown struct {
	Lang  string // the language's tag
	Queue queue.ID
	View  string
	Title string

	Styles    []string
	Script    string // "" for a page without scripts
	OldScript string
	PlainURL  string
	Data      any // for the script
	Languages []choice

	GoTo *handover // without scripts: on to the site
	Form *form     // without scripts: into the line
	Stay string    // a link to wait without what was wrong; "" for none

	words  *words
	values map[string]string
	flags  []string
	files  *files
}

type choice struct {
	URL, Tag, Name string
	Current        bool
}

type handover struct{ Action, Token, To string }

type form struct{ Queue, Key, Return, Lang, Label string }

// T is the first of the texts that can be said: names from the files of words, of which "@" is the view; "=name" is a value alone.
func (p *shown) T(names string) string {
	for name := range strings.FieldsSeq(names) {
		if value, ok := strings.CutPrefix(name, "="); ok {
			return p.values[value]
		}
		if text := p.words.say(strings.Replace(name, "@", p.View, 1), p.values); text != "" {
			return text
		}
	}
	return ""
}

// Text marks an element whose text is T's, for the script to go on with; it is hidden where there is nothing to be said.
func (p *shown) Text(names string) template.HTMLAttr { return p.Part("", names) }

// When marks an element that is seen only in one of the views, or while one of the flags is set.
func (p *shown) When(names string) template.HTMLAttr { return p.Part(names, "") }

// Part is both: seen in one of the views or under one of the flags, and where there is something to be said.
func (p *shown) Part(when, text string) template.HTMLAttr {
	var attr string
	seen := when == ""
	if when != "" {
		attr = `data-when="` + template.HTMLEscapeString(when) + `" `
		for name := range strings.FieldsSeq(when) {
			seen = seen || p.is(name)
		}
	}
	if text != "" {
		attr += `data-t="` + template.HTMLEscapeString(text) + `" `
		seen = seen && p.T(text) != ""
	}
	if !seen {
		attr += "hidden"
	}
	return template.HTMLAttr(strings.TrimSpace(attr)) // escaped
}

func (p *shown) is(name string) bool {
	if name == p.View {
		return true
	}
	for _, f := range p.flags {
		if f == name {
			return true
		}
	}
	return false
}

// File is the address of a file of the operators' folder.
func (p *shown) File(name string) (string, error) {
	if u := p.files.url(name); u != "" {
		return u, nil
	}
	return "", fmt.Errorf("there is no file %s in the folder, or it is of no kind that pages show (css, svg, png, jpg, webp, woff2)", name)
}

const (
	templateFile = "template.html"
	styleFile    = "style.css"
)

// readLook reads the operators' template and style, or those that are built in where own is nil, and renders every state in every
// language. Its errors begin with file and line.
func (s *Service) readLook(own fs.FS) (*look, error) {
	l := &look{styles: []string{s.files.url("page.css")}}
	parts, err := fs.ReadFile(builtin, "look/parts.html")
	if err != nil {
		return nil, err
	}
	t, err := template.New("parts.html").Parse(string(parts))
	if err != nil {
		return nil, err
	}
	folder := own
	if own == nil {
		if folder, err = fs.Sub(builtin, "look"); err != nil {
			return nil, err
		}
	}
	page, err := fs.ReadFile(folder, templateFile)
	if err != nil {
		return nil, fmt.Errorf("%s is missing: %w", templateFile, err)
	}
	if l.template, err = t.New(templateFile).Parse(string(page)); err != nil {
		return nil, plainer(err)
	}
	var errs []error
	errs = append(errs, checkTemplate(l.template.Tree, page)...)
	if own != nil {
		style, err := fs.ReadFile(own, styleFile)
		if err != nil {
			return nil, fmt.Errorf("%s is missing: %w", styleFile, err)
		}
		errs = append(errs, checkStyle(style)...)
		l.styles = append(l.styles, s.files.url(styleFile))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	for _, w := range s.words.all {
		for _, state := range states() {
			_, err := l.render(s.example(state, w, l))
			if broken := new(template.Error); errors.As(err, &broken) { // it is the same in every state
				return nil, whereBroken(string(parts), string(page), broken)
			}
			if err != nil {
				return nil, fmt.Errorf("%w (in the state %s, language %s)", plainer(err), state.name, w.Tag)
			}
		}
	}
	return l, nil
}

func (l *look) render(p *shown) ([]byte, error) {
	var b bytes.Buffer
	if err := l.template.ExecuteTemplate(&b, templateFile, p); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

var prefixed = regexp.MustCompile(`^(html/)?template: ?`)

// plainer takes away what the template package puts before file and line.
func plainer(err error) error { return errors.New(prefixed.ReplaceAllString(err.Error(), "")) }

var hasLine = regexp.MustCompile(`^` + regexp.QuoteMeta(templateFile) + `:\d+`)

// whereBroken says in which line of page the HTML went wrong, which html/template mostly does not: that after the last one up to which
// all was well. page parses.
func whereBroken(parts, page string, broken *template.Error) error {
	err := plainer(broken)
	if hasLine.MatchString(err.Error()) {
		return err
	}
	what := strings.TrimPrefix(err.Error(), templateFile+": ")
	if broken.ErrorCode == template.ErrEndContext {
		what = "what begins here does not end: a quote, a tag, a comment, or an element like title"
	}
	line := 1
	for n, at := 1, 0; at < len(page); n++ {
		if next := strings.IndexByte(page[at:], '\n'); next < 0 {
			break
		} else {
			at += next + 1
		}
		t := template.Must(template.New("").Parse(parts))
		if _, err := t.New(templateFile).Parse(page[:at]); err != nil {
			continue // in the middle of an action, or of what it encloses
		}
		// With nothing to show it can't be executed, and that is another error.
		if err := t.ExecuteTemplate(io.Discard, templateFile, nil); !errors.As(err, new(*template.Error)) {
			line = n + 1
		}
	}
	return fmt.Errorf("%s:%d: %s", templateFile, line, what)
}

// refusedInTemplate are things that the Content-Security-Policy would keep from working, in silence, for everybody who waits.
var refusedInTemplate = []struct {
	what *regexp.Regexp
	why  string
}{
	{regexp.MustCompile(`(?i)<script`), "scripts of your own are not run: the page's policy refuses them"},
	{regexp.MustCompile(`(?i)<style|\sstyle\s*=`), "styles are in style.css: the page's policy refuses them here"},
	{regexp.MustCompile(`(?i)\son[a-z]+\s*=`), "handlers of events are not run: the page's policy refuses them"},
	{regexp.MustCompile(`(?i)<(iframe|object|embed|base)\b`), "this element is refused by the page's policy"},
	{regexp.MustCompile(`(?i)\bsrc\s*=\s*["']?\s*(https?:)?//|<link[^>]*\shref\s*=\s*["']?\s*(https?:)?//`),
		"nothing is loaded from elsewhere: put the file beside the template, and name it by {{.File \"name\"}}"},
}

func checkTemplate(tree *parse.Tree, text []byte) []error {
	var errs []error
	used := map[string]int{}
	countTemplates(tree.Root, used)
	for _, name := range []string{"head", "line"} {
		if used[name] != 1 {
			errs = append(errs, fmt.Errorf("%s:1: {{template %q .}} has to be in it once; it is there %d times", templateFile, name, used[name]))
		}
	}
	for n, line := range strings.Split(string(text), "\n") {
		for _, r := range refusedInTemplate {
			if r.what.MatchString(line) {
				errs = append(errs, fmt.Errorf("%s:%d: %s", templateFile, n+1, r.why))
			}
		}
	}
	return errs
}

func countTemplates(n parse.Node, used map[string]int) {
	switch n := n.(type) {
	case *parse.ListNode:
		if n == nil {
			return
		}
		for _, child := range n.Nodes {
			countTemplates(child, used)
		}
	case *parse.TemplateNode:
		used[n.Name]++
	case *parse.IfNode:
		countTemplates(n.List, used)
		countTemplates(n.ElseList, used)
	case *parse.WithNode:
		countTemplates(n.List, used)
		countTemplates(n.ElseList, used)
	case *parse.RangeNode:
		countTemplates(n.List, used)
		countTemplates(n.ElseList, used)
	}
}

var (
	imports  = regexp.MustCompile(`(?i)@import`)
	external = regexp.MustCompile(`(?i)url\(\s*["']?\s*(https?:)?//`)
)

// checkStyle finds what makes a browser drop the rest of a style sheet, or ask elsewhere. It reads comments, strings and braces; what
// the rules say is the operators'.
func checkStyle(text []byte) []error {
	var errs []error
	bad := func(line int, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s:%d: %s", styleFile, line, fmt.Sprintf(format, args...)))
	}
	for n, line := range strings.Split(string(text), "\n") {
		if imports.MatchString(line) {
			bad(n+1, "@import is refused: put everything into %s", styleFile)
		}
		if external.MatchString(line) {
			bad(n+1, "nothing is loaded from elsewhere: put the file beside %s", styleFile)
		}
	}
	line, open := 1, []int{}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\n':
			line++
		case c == '/' && i+1 < len(text) && text[i+1] == '*':
			end := bytes.Index(text[i+2:], []byte("*/"))
			if end < 0 {
				bad(line, "the comment that begins here does not end")
				return errs
			}
			line += bytes.Count(text[i:i+2+end], []byte("\n"))
			i += end + 3
		case c == '"' || c == '\'':
			from := i
			for i++; i < len(text) && text[i] != c && text[i] != '\n'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
			if i >= len(text) || text[i] != c {
				bad(line, "the string that begins here does not end: %.20q", text[from:min(i, len(text))])
				return errs
			}
		case c == '{':
			open = append(open, line)
		case c == '}':
			if len(open) == 0 {
				bad(line, "this } closes nothing")
				return errs
			}
			open = open[:len(open)-1]
		}
	}
	if len(open) > 0 {
		bad(open[len(open)-1], "the { of this line is not closed")
	}
	return errs
}

// lineOf is the line that a JSON error is in; 1 where it does not say.
func lineOf(b []byte, err error) int {
	var syntactic *jsontext.SyntacticError
	var semantic *json.SemanticError
	var at int64
	switch {
	case errors.As(err, &syntactic):
		at = syntactic.ByteOffset
	case errors.As(err, &semantic):
		at = semantic.ByteOffset
	}
	return 1 + bytes.Count(b[:min(at, int64(len(b)))], []byte("\n"))
}
