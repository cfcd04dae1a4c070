package position

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/line"
	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/httpapi"
)

// fixed is a reading of the log that stands at a place.
type fixed struct{ served, fresh queue.Ticket }

func (l fixed) State() queue.State           { return queue.State{Seq: 9000, Served: l.served} }
func (l fixed) Fresh(time.Time) queue.Ticket { return l.fresh }
func (l fixed) Grant(queue.Visitor, time.Time) (queue.Grant, line.GrantState) {
	return queue.Grant{}, line.NoGrant
}
func (l fixed) Rate(time.Time, int) (float64, bool)         { return 0, false }
func (l fixed) WaitFor(context.Context, queue.Ticket) error { return nil }

// place is a view that has one answer.
type place struct {
	moment queue.Moment
	place  queue.Place
}

func (p place) Place(context.Context, queue.Visitor) (queue.Moment, queue.Place, error) {
	return p.moment, p.place, nil
}

// told is the part of an answer that is looked at here.
type told struct {
	Ahead     int64  `json:"ahead"`
	Position  int64  `json:"position"`
	Total     *int64 `json:"total"`
	Precision string `json:"precision"`
	Receipt   string `json:"receipt"`
}

// A person polls three nodes by turns with the newest receipt. One has read more of the log than another; a third was started
// a moment ago and takes a view that is some seconds old for exact. What was told first may not be exceeded by any of them.
func TestFault03_ANumberDoesNotRiseFromNodeToNode(t *testing.T) {
	material, err := pass.GenerateKeys()
	require.NoError(t, err)
	keys, err := pass.ParseKeys(material)
	require.NoError(t, err)
	ask := func(q *Queue, receipt string) told {
		s, err := New(Config{Keys: keys, Find: func(queue.ID) (*Queue, *queue.Entry, bool) { return q, plain(), true }}, prometheus.NewRegistry())
		require.NoError(t, err)
		e, err := httpapi.New(httpapi.Config{}, zap.NewNop(), prometheus.NewRegistry())
		require.NoError(t, err)
		s.Register(e)
		req := httptest.NewRequest(http.MethodGet, "/queue/position?queue=main", nil)
		req.Header.Set("Authorization", "Bearer "+receipt)
		rec := httptest.NewRecorder()
		e.ServeHTTP(rec, req)
		require.Equal(t, http.StatusOK, rec.Code, rec.Body.String())
		var a told
		require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &a))
		return a
	}
	stale := place{moment: queue.Moment{State: queue.State{Seq: 5300, Served: 4300}, Total: 900}, place: queue.Place{Ticket: 5218, Ahead: 826}}
	ahead := &Queue{View: noView{}, Reading: fixed{served: 5046}}
	lagging := &Queue{View: noView{}, Reading: fixed{served: 5000}}
	restarted := &Queue{View: stale, Reading: fixed{served: 5046}}
	// An earlier ticket of the same request counts, as the view alone knows.
	retransmitted := &Queue{View: place{stale.moment, queue.Place{Ticket: 5200, Ahead: 820}}, Reading: fixed{served: 5000}}

	for name, second := range map[string]*Queue{"lagging": lagging, "restarted": restarted, "retransmitted": retransmitted} {
		receipt, err := keys.SignReceipt(pass.Receipt{Queue: "main", Visitor: "v", Ticket: 5218, Ahead: queue.NoAhead, IssuedMs: 1})
		require.NoError(t, err)
		first := ask(ahead, receipt)
		require.Equal(t, "approximate", first.Precision)
		require.EqualValues(t, 171, first.Ahead)
		require.NotEmpty(t, first.Receipt)
		then := ask(second, first.Receipt)
		require.EqualValues(t, 171, then.Ahead, "by the node that is %s", name)
		require.EqualValues(t, 172, then.Position)
		if then.Total != nil {
			require.GreaterOrEqual(t, *then.Total, then.Position)
		}
	}

	// Who was moved back, by an entry of their own, is told so.
	moved := &Queue{View: place{stale.moment, queue.Place{Ticket: 5290, Ahead: 890}}, Reading: fixed{served: 4300}}
	receipt, err := keys.SignReceipt(pass.Receipt{Queue: "main", Visitor: "v", Ticket: 5218, Ahead: 171, IssuedMs: 1})
	require.NoError(t, err)
	require.EqualValues(t, 890, ask(moved, receipt).Ahead)
}
