package position

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// Everybody asks this all the time: an answer allocates little.
func BenchmarkPosition(b *testing.B) {
	f := newFixture(b)
	r := httptest.NewRequest("GET", "/queue/position?"+inMain, nil)
	r.Header.Set("Authorization", "Bearer "+f.receipt(b, "main"))
	w := &discard{header: http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		clear(w.header)
		f.e.ServeHTTP(w, r)
	}
}

type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(int)             {}
