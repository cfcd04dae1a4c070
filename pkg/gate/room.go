package gate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

// Room asks a waiting room which queue of a name it has at present, for Config.Made:
//
//	room, err := gate.NewRoom("https://wait.example", "main", nil)
//	…
//	go room.Run(ctx, nil)
//	g, err := gate.New(gate.Config{…, Made: room.Made})
//
// It asks GET /queue/info, which is for everybody. It is safe for concurrent use.
type Room struct {
	url    string
	id     queue.ID
	client *http.Client
	made   atomic.Int64
}

const (
	askEvery    = 5 * time.Second
	askTimeout  = 2 * time.Second
	maxQuestion = 64 << 10 // bytes of an answer
)

// NewRoom is the room at an address, of which the scheme and the host count. client is http.DefaultClient if nil. Nothing is asked yet.
func NewRoom(address string, id queue.ID, client *http.Client) (*Room, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil {
		return nil, errors.New("not the address of a waiting room: http or https, a host, no user")
	}
	if client == nil {
		client = http.DefaultClient
	}
	ask := url.URL{Scheme: u.Scheme, Host: u.Host, Path: "/queue/info", RawQuery: url.Values{"queue": {string(id)}}.Encode()}
	return &Room{url: ask.String(), id: id, client: client}, nil
}

// Made is what the last answer said: what the present queue was made with. 0: there was none, or it does not say.
func (r *Room) Made() int64 { return r.made.Load() }

// Ask asks once. What was known stays known where there is no answer, or no such queue.
func (r *Room) Ask(ctx context.Context) error {
	if err := r.ask(ctx); err != nil {
		return fmt.Errorf("ask the waiting room about %s: %w", r.id, err)
	}
	return nil
}

func (r *Room) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/json")
	res, err := r.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxQuestion))
	if err != nil {
		return err
	}
	var answer struct {
		Code  string   `json:"code"`
		Queue queue.ID `json:"queue"`
		Made  int64    `json:"made"`
	}
	err = json.Unmarshal(body, &answer)
	switch {
	case err == nil && res.StatusCode == http.StatusNotFound && answer.Code == "queue_unknown":
		return nil // who was let in by it stays in
	case err != nil || res.StatusCode != http.StatusOK || answer.Queue != r.id:
		return fmt.Errorf("the answer, of status %d, is not about it", res.StatusCode)
	}
	r.made.Store(answer.Made)
	return nil
}

// Run asks at once, and then every 5 s or so, until ctx ends. told, if set, is told of every answer, and of every question that had none.
func (r *Room) Run(ctx context.Context, told func(error)) {
	for {
		err := r.Ask(ctx)
		if ctx.Err() != nil {
			return
		}
		if told != nil {
			told(err)
		}
		// Not all gates at once.
		timer := time.NewTimer(askEvery - askEvery/10 + rand.N(askEvery/5))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}
