package enter_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

// Whatever the body and the headers: never a 5xx while the log works, a record exactly when it was accepted, and only
// ever in a queue that there is, of a visitor whom the credential names or who was made here.
func FuzzEnterBody(f *testing.F) {
	for _, tc := range badBodies {
		f.Add(tc.body, "application/json", uuid, "")
	}
	f.Add(intoMain, "application/json; charset=utf-8", "", "Bearer x.y.z")
	f.Add(`{"queue":"other"}`, "application/json", "short", "Basic eDp5")
	x := newFixture(f)
	f.Fuzz(func(t *testing.T, body, contentType, idempotencyKey, authorization string) {
		x.log.clear()
		for _, path := range []string{enterPath, leavePath} {
			before := x.log.total()
			r := httptest.NewRequest("POST", path, strings.NewReader(body))
			r.Header.Set("Content-Type", contentType)
			if idempotencyKey != "" {
				r.Header.Set("Idempotency-Key", idempotencyKey)
			}
			if authorization != "" {
				r.Header.Set("Authorization", authorization)
			}
			a := x.send(t, r)
			switch {
			case a.http == 202 && path == enterPath:
				if x.log.total() != before+1 {
					t.Errorf("accepted without a record")
				}
			case a.http >= 400 && a.http < 500:
				if x.log.total() != before {
					t.Errorf("%d, and a record", a.http)
				}
			default:
				t.Errorf("%s: %d %s", path, a.http, a.Code)
			}
		}
		for _, id := range []queue.ID{"main", "other"} {
			for _, rec := range x.log.of(id) {
				if rec.Kind != queue.Entered || len(rec.Visitor) != len(queue.NewVisitor()) || (rec.Key != "" && len(rec.Key) != 16) {
					t.Errorf("got %+v", rec)
				}
			}
		}
		if x.log.total() != len(x.log.of("main"))+len(x.log.of("other")) {
			t.Errorf("a record in a queue that there isn't")
		}
	})
}
