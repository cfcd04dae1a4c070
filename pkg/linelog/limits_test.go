package linelog

import (
	"testing"
	"testing/synctest"
	"time"
)

// Nobody gives up before the limit, or more than a fiftieth of it too late, whenever they begin.
func TestLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = time.Second
		l := limits{after: limit}
		for range 200 {
			go func() {
				began := time.Now()
				<-l.begin(began)
				if took := time.Since(began); took < limit || took > limit+limit/50 {
					t.Errorf("a wait of %v for a limit of %v", took, limit)
				}
			}()
			time.Sleep(7 * time.Millisecond)
		}
		time.Sleep(2 * limit)
	})
}
