package page

import (
	"encoding/json"
	"os"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
)

// What the page reads by name is what the interface's description says that GET /queue/position answers, which is tested against the
// handler. Neither imports the other.
func TestTheAnswerIsTheOneThatIsDescribed(t *testing.T) {
	b, err := os.ReadFile("../admin/openapi.json")
	require.NoError(t, err)
	type schema struct {
		Properties map[string]any `json:"properties"`
	}
	var doc struct {
		Components struct {
			Schemas map[string]schema `json:"schemas"`
		} `json:"components"`
	}
	require.NoError(t, json.Unmarshal(b, &doc))
	described := map[string]bool{}
	for _, name := range []string{"Waiting", "Admitted", "Over", "Problem"} {
		require.NotEmpty(t, doc.Components.Schemas[name].Properties, name)
		for property := range doc.Components.Schemas[name].Properties {
			described[property] = true
		}
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[answer]()) {
		require.True(t, described[f.Tag.Get("json")], f.Name)
	}
	for property := range doc.Components.Schemas["Accepted"].Properties { // passed on by the client, by the same names
		switch property {
		case "status", "visitor", "queue":
		default:
			require.True(t, described[property], property)
		}
	}
}
