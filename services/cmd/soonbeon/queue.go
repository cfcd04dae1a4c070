package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/soonbeon/soonbeon/services/catalog"
)

// queueCmd is for whoever runs the queues. All of it goes by the HTTP API of the private port, so it does what that does.
type queueCmd struct {
	Create  queueCreateCmd  `cmd:"" help:"Make a queue; settings that are not given have their defaults."`
	List    queueListCmd    `cmd:"" help:"List the queues and how they stand."`
	Show    queueShowCmd    `cmd:"" help:"Show a queue, its settings and how its line goes."`
	Set     queueSetCmd     `cmd:"" help:"Change some settings of a queue; the others stay."`
	Pause   queuePauseCmd   `cmd:"" help:"Let nobody in; who waits keeps the place."`
	Resume  queueResumeCmd  `cmd:"" help:"Undo pause and closing."`
	Close   queueCloseCmd   `cmd:"" help:"Take nobody into the line any more; who waits is let through, or with --ending told that it is over."`
	Delete  queueDeleteCmd  `cmd:"" help:"Delete a queue and everything of it: its line, its log, its name."`
	Changes queueChangesCmd `cmd:"" help:"List who changed what in a queue, the newest first."`
}

// ofQueue is what most commands have in common.
type ofQueue struct {
	operatorFlags
	ID string `arg:"" help:"The queue's id." name:"queue"`
}

func (n *ofQueue) path(rest string) string { return "/admin/queues/" + pathEscape(n.ID) + rest }

// done prints what a queue is after a change: the API's JSON, or one line.
func (n *ofQueue) done(s streams, what string, r *reply) error {
	if n.JSON {
		return printJSON(s.out, r.body)
	}
	d, err := r.document()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.out, "%s %s   %s\n", what, d.ID, summary(d))
	return err
}

type queueCreateCmd struct {
	ofQueue
	settingFlags
	Order *string `help:"In which order those who entered before --opens-at are let in: arrival, or draw (by lot). It can't be changed later." env:"-"`
}

func (c *queueCreateCmd) Run(ctx context.Context, s streams) error {
	given, err := c.given()
	if err != nil {
		return err
	}
	if c.Order != nil {
		given["order"] = quote(*c.Order)
	}
	body, err := json.Marshal(map[string]any{"id": c.ID, "settings": given})
	if err != nil {
		return err
	}
	r, err := c.ask(ctx, http.MethodPost, "/admin/queues", body, "")
	if err != nil {
		return about("queue "+c.ID, err)
	}
	return c.done(s, "made", r)
}

type queueListCmd struct{ operatorFlags }

func (c *queueListCmd) Run(ctx context.Context, s streams) error {
	r, err := c.ask(ctx, http.MethodGet, "/admin/queues", nil, "")
	if err != nil {
		return about("the queues", err)
	}
	if c.JSON {
		return printJSON(s.out, r.body)
	}
	var all struct {
		Queues []catalog.Document `json:"queues"`
	}
	if err := json.Unmarshal(r.body, &all); err != nil {
		return fmt.Errorf("the queues: the answer can't be read: %w", err)
	}
	return printList(s.out, all.Queues)
}

type queueShowCmd struct{ ofQueue }

func (c *queueShowCmd) Run(ctx context.Context, s streams) error {
	r, err := c.ask(ctx, http.MethodGet, c.path(""), nil, "")
	if err != nil {
		return about("queue "+c.ID, err)
	}
	if c.JSON {
		return printJSON(s.out, r.body)
	}
	d, err := r.document()
	if err != nil {
		return err
	}
	return printQueue(s.out, d)
}

type queueSetCmd struct {
	ofQueue
	settingFlags
}

func (c *queueSetCmd) Run(ctx context.Context, s streams) error {
	given, err := c.given()
	if err != nil {
		return err
	}
	if len(given) == 0 {
		return fmt.Errorf("queue %s: no setting is given, so there is nothing to change (`soonbeon queue set --help` lists them)", c.ID)
	}
	was, err := c.ask(ctx, http.MethodGet, c.path(""), nil, "")
	if err != nil {
		return about("queue "+c.ID, err)
	}
	var now struct {
		Version  int64                     `json:"version"`
		Settings map[string]jsontext.Value `json:"settings"`
	}
	if err := json.Unmarshal(was.body, &now); err != nil {
		return fmt.Errorf("queue %s: the answer can't be read: %w", c.ID, err)
	}
	maps.Copy(now.Settings, given)
	if c.lowers(now.Settings) {
		now.Settings["conservativeRate"] = given["rate"]
	}
	for name, v := range now.Settings { // the default is had by not telling it
		if v == nil {
			delete(now.Settings, name)
		}
	}
	body, err := json.Marshal(map[string]any{"settings": now.Settings})
	if err != nil {
		return err
	}
	r, err := c.ask(ctx, http.MethodPut, c.path(""), body, was.header.Get("ETag"))
	if refused := refusal(err); refused != nil && refused.Code == "queue_changed" {
		return fmt.Errorf("queue %s was changed while this was on its way%s; nothing of yours is set: look at it, and run the command again", c.ID, c.meanwhile(ctx, now.Version))
	}
	if err != nil {
		return about("queue "+c.ID, err)
	}
	return c.done(s, "set", r)
}

// lowers says that the rate is set below the conservative rate, of which nothing is said. It goes along then: who slows a queue in
// a hurry is not to be told to slow two things.
func (c *queueSetCmd) lowers(now map[string]jsontext.Value) bool {
	var conservative float64
	return c.Rate != nil && c.ConservativeRate == nil && json.Unmarshal(now["conservativeRate"], &conservative) == nil && *c.Rate < conservative
}

// meanwhile tells who has changed what since a version; nothing where that can't be had.
func (c *queueSetCmd) meanwhile(ctx context.Context, since int64) string {
	r, err := c.ask(ctx, http.MethodGet, c.path("/changes?limit=10"), nil, "")
	if err != nil {
		return ""
	}
	changes, err := r.changes()
	if err != nil {
		return ""
	}
	var told []string
	for _, ch := range slices.Backward(changes) {
		if ch.From != nil && ch.From.Version >= since {
			told = append(told, fmt.Sprintf("%s by %s at %s (%s)", ch.Action, ch.Who, clock(ch.At), difference(ch)))
		}
	}
	if len(told) == 0 {
		return ""
	}
	return ": " + strings.Join(told, ", ")
}

type queuePauseCmd struct {
	ofQueue
	Message *string `help:"Text for those who wait; empty shows none. Not given: what is shown stays." env:"-"`
}

func (c *queuePauseCmd) Run(ctx context.Context, s streams) error {
	return c.move(ctx, s, "pause", "paused", c.Message)
}

type queueResumeCmd struct {
	ofQueue
	Message *string `help:"Text for those who wait; empty shows none. Not given: what is shown stays." env:"-"`
}

func (c *queueResumeCmd) Run(ctx context.Context, s streams) error {
	return c.move(ctx, s, "resume", "resumed", c.Message)
}

func (n *ofQueue) move(ctx context.Context, s streams, action, done string, message *string) error {
	body := map[string]any{}
	if message != nil {
		body["message"] = *message
	}
	return n.post(ctx, s, action, done, body)
}

func (n *ofQueue) post(ctx context.Context, s streams, action, done string, members map[string]any) error {
	body, err := json.Marshal(members)
	if err != nil {
		return err
	}
	r, err := n.ask(ctx, http.MethodPost, n.path("/"+action), body, "")
	if err != nil {
		return about("queue "+n.ID, err)
	}
	return n.done(s, done, r)
}

type queueCloseCmd struct {
	ofQueue
	Reason string `help:"A word for machines, 1 to 32 of a-z, 0-9 and _: closed, sold_out, …" default:"closed" env:"-"`
	Ending bool   `help:"End the line too: who waits is not let through, and told the reason." env:"-"`
}

func (c *queueCloseCmd) Run(ctx context.Context, s streams) error {
	done := "closed"
	if c.Ending {
		done = "ended"
	}
	return c.post(ctx, s, "close", done, map[string]any{"reason": c.Reason, "ending": c.Ending})
}

type queueDeleteCmd struct {
	ofQueue
	Yes bool `help:"Don't ask." env:"-"`

	in io.Reader // who is asked; nil: standard input
}

func (c *queueDeleteCmd) Run(ctx context.Context, s streams) error {
	if !c.Yes {
		if err := c.sure(ctx, s); err != nil {
			return err
		}
	}
	if _, err := c.ask(ctx, http.MethodDelete, c.path(""), nil, ""); err != nil {
		return about("queue "+c.ID, err)
	}
	if c.JSON {
		return nil // as the API: no body
	}
	_, err := fmt.Fprintf(s.out, "deleted %s\n", c.ID)
	return err
}

// sure has the name typed.
func (c *queueDeleteCmd) sure(ctx context.Context, s streams) error {
	r, err := c.ask(ctx, http.MethodGet, c.path(""), nil, "")
	if err != nil {
		return about("queue "+c.ID, err)
	}
	d, err := r.document()
	if err != nil {
		return err
	}
	waiting := ""
	if d.Live != nil {
		waiting = fmt.Sprintf(" %d people wait in it, and %d were let in and are not done.", d.Live.Waiting, d.Live.Active)
	}
	fmt.Fprintf(s.err, "Queue %s is %s.%s Deleting takes everybody's place and the record of it, for good.\nType its name to delete it: ", c.ID, d.State, waiting)
	in := c.in
	if in == nil {
		in = os.Stdin
	}
	line, _ := bufio.NewReader(in).ReadString('\n')
	if strings.TrimSpace(line) != c.ID {
		return fmt.Errorf("queue %s: that is not its name, so nothing was deleted (--yes doesn't ask)", c.ID)
	}
	return nil
}

type queueChangesCmd struct {
	ofQueue
	Limit int `help:"How many at the most, up to 1000." default:"50" env:"-"`
}

func (c *queueChangesCmd) Run(ctx context.Context, s streams) error {
	r, err := c.ask(ctx, http.MethodGet, c.path("/changes?limit="+strconv.Itoa(c.Limit)), nil, "")
	if err != nil {
		return about("queue "+c.ID, err)
	}
	if c.JSON {
		return printJSON(s.out, r.body)
	}
	changes, err := r.changes()
	if err != nil {
		return err
	}
	return printChanges(s.out, changes)
}

func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }
