package admin

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/soonbeon/soonbeon/services/httpapi"
)

// body takes the members of a request one by one, and collects the mistakes.
type body struct {
	members  map[string]jsontext.Value
	mistakes []string
}

func (b *body) take(name string) jsontext.Value {
	raw := b.members[name]
	delete(b.members, name)
	return raw
}

// text is a string member, and def where there is none.
func (b *body) text(name, def string) string {
	raw, v := b.take(name), def
	if raw == nil {
		return def
	}
	if raw.Kind() != '"' || json.Unmarshal(raw, &v) != nil {
		b.mistakes = append(b.mistakes, fmt.Sprintf("%s is a string, not %.80s", name, raw))
		return def
	}
	return v
}

// truth is a member that is true or false, and false where there is none.
func (b *body) truth(name string) (v bool) {
	raw := b.take(name)
	if raw != nil && (raw.Kind() == 'n' || json.Unmarshal(raw, &v) != nil) {
		b.mistakes = append(b.mistakes, fmt.Sprintf("%s is true or false, not %.80s", name, raw))
	}
	return v
}

// end is the problem of everything that was wrong, more included, and of what nobody has taken; nil if there is nothing.
func (b *body) end(more ...string) error {
	mistakes := append(b.mistakes, more...)
	for _, name := range slices.Sorted(maps.Keys(b.members)) {
		mistakes = append(mistakes, fmt.Sprintf("there is no field %.80q here", name))
	}
	if len(mistakes) == 0 {
		return nil
	}
	return invalid(mistakes)
}

func invalid(mistakes []string) error {
	return httpapi.Problemf(httpapi.SettingsInvalid, "nothing was changed: %s", strings.Join(mistakes, "; ")).With("mistakes", mistakes)
}
