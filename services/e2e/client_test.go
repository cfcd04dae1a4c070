package e2e

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

// reply to one request, with whatever fields the answers of the waiting room have.
type reply struct {
	status       int
	header       http.Header
	body         string
	Status       any          `json:"status"` // a word, or a problem's number
	Code         string       `json:"code"`
	Visitor      string       `json:"visitor"`
	Ticket       queue.Ticket `json:"ticket"`
	Receipt      string       `json:"receipt"`
	RetryAfterMs int64        `json:"retryAfterMs"`
	State        string       `json:"state"`
	Reason       string       `json:"reason"`
	Position     int64        `json:"position"`
	Ahead        int64        `json:"ahead"`
	Total        int64        `json:"total"`
	Precision    string       `json:"precision"`
	Token        string       `json:"token"`
}

// ask is one request, as curl would send it: header is "Name: value".
func ask(t testing.TB, method, url, body string, header ...string) reply {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	require.NoError(t, err)
	for _, h := range header {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Add(name, value)
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	r := reply{status: res.StatusCode, header: res.Header, body: string(b)}
	if strings.HasPrefix(string(b), "{") {
		require.NoError(t, json.Unmarshal(b, &r), r.body)
	}
	return r
}

const asJSON = "Content-Type: application/json"

func enter(t testing.TB, at string, header ...string) reply {
	t.Helper()
	return ask(t, http.MethodPost, at+"/queue/enter", `{"queue":"main"}`, append(header, asJSON)...)
}

func position(t testing.TB, at, receipt string) reply {
	t.Helper()
	return ask(t, http.MethodGet, at+"/queue/position?queue=main", "", "Authorization: Bearer "+receipt)
}

func leave(t testing.TB, at, receipt string) reply {
	t.Helper()
	return ask(t, http.MethodPost, at+"/queue/leave", `{"queue":"main"}`, asJSON, "Authorization: Bearer "+receipt)
}
