package admin_test

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"github.com/soonbeon/soonbeon/services/admin"
)

// What programs are told, people are shown: each operation and each schema, on a page that loads nothing.
func TestTheReferenceShowsTheWholeDescription(t *testing.T) {
	f := newFixture(t)
	e := echo.New()
	f.service.RegisterReference(e)
	out := httptest.NewRecorder()
	e.ServeHTTP(out, httptest.NewRequest(http.MethodGet, "/docs", nil))
	require.Equal(t, http.StatusOK, out.Code)
	page := out.Body.String()
	require.Contains(t, out.Header().Get("Content-Security-Policy"), "default-src 'none'")
	require.NotContains(t, page, "<script")
	operations := 0
	for _, m := range regexp.MustCompile(`"(/[a-z/{}.]+)": \{`).FindAllStringSubmatch(string(admin.Description()), -1) {
		require.Contains(t, page, m[1]+"</code></h2>", "an operation of %s", m[1])
		operations++
	}
	require.Greater(t, operations, 10)
	require.Contains(t, page, "<code>If-Match</code> (needed)")
	require.Greater(t, strings.Count(page, `<details id="schema-`), 10)
}
