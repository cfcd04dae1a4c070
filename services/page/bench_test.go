package page_test

import "testing"

// BenchmarkPage is what one newcomer's page costs.
func BenchmarkPage(b *testing.B) {
	r := open(b, nil)
	b.ReportAllocs()
	for b.Loop() {
		if w := r.get("/queue/wait?queue=main&return=%2Fx", "Accept-Encoding", "gzip", "Accept-Language", "ko-KR,ko;q=0.9"); w.Code != 200 {
			b.Fatal(w.Code)
		}
	}
}
