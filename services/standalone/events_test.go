package standalone

import (
	"bufio"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/soonbeon/soonbeon/pkg/pass"
)

// stream is an event stream of somebody's in the queue main.
func stream(t *testing.T, p *Process, receipt string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(soon(t), "GET", "http://"+p.Public()+"/queue/events?queue=main", nil)
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+receipt)
	r.Close = true
	res, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	t.Cleanup(func() { _ = res.Body.Close() })
	return res
}

// Whoever holds a stream gets the token of the very admission that the log has, moments after its record is there.
func TestTokensArePushed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	cfg := embeddedConfig(dir)
	cfg.Rate = 20
	p := started(t, cfg, All)
	ready(t, p)
	text, err := os.ReadFile(filepath.Join(dir, "keys"))
	require.NoError(t, err)
	keys, err := pass.ParseKeys(strings.TrimSpace(string(text)))
	require.NoError(t, err)

	var people []answer
	for range 40 {
		people = append(people, enterMain(t, p))
	}
	var all sync.WaitGroup
	for _, who := range people {
		all.Go(func() {
			res := stream(t, p, who.Receipt)
			kind := ""
			for lines := bufio.NewScanner(res.Body); lines.Scan(); {
				if name, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
					kind = name
				}
				data, ok := strings.CutPrefix(lines.Text(), "data: ")
				if !ok || kind != "admitted" {
					continue
				}
				arrived := time.Now()
				var a answer
				if json.Unmarshal([]byte(data), &a) != nil {
					break
				}
				e, err := keys.VerifyEntry(a.Token, "main", arrived)
				if err == nil && e.Visitor == who.Visitor && int64(e.Ticket) == who.Ticket {
					// Much more than it takes, for machines that do other things too; the benchmarks say what it takes.
					if late := arrived.Sub(time.UnixMilli(e.AdmittedMs)); late > 2*time.Second {
						t.Errorf("the token came %v after its record", late)
					}
					return
				}
			}
			t.Errorf("ticket %d: no token", who.Ticket)
		})
	}
	all.Wait()
}

// A stop does not wait for streams to end by themselves.
func TestFault28_AStopEndsStreams(t *testing.T) {
	cfg := embeddedConfig(filepath.Join(t.TempDir(), "data"))
	cfg.Rate = 0.001
	p := started(t, cfg, All)
	enterMain(t, p)
	res := stream(t, p, enterMain(t, p).Receipt)
	require.Equal(t, 200, res.StatusCode)
	lines := bufio.NewScanner(res.Body)
	require.True(t, lines.Scan())
	began := time.Now()
	require.NoError(t, p.Stop(soon(t)))
	require.Less(t, time.Since(began), 4*time.Second, "less than a stop waits for requests")
	for lines.Scan() {
		continue
	}
	require.NoError(t, lines.Err(), "an end, not a cut")
}
