package catalog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/lifecycle"
	"github.com/soonbeon/soonbeon/pkg/linelog"
	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/pkg/queue"
)

// Writer edits the catalogue; *linelog.CatalogWriter is one.
type Writer interface {
	// Edit calls change with the current entry (nil: there is none) and writes what it returns, the entry and the record of the
	// change at once; a record without an entry removes the queue, and nothing at all writes nothing. change may be called
	// several times. It returns the entry as it is afterwards, its version included.
	Edit(ctx context.Context, id queue.ID, change func(current *queue.Entry) (next *queue.Entry, what *queue.Change, err error)) (*queue.Entry, error)
}

// Topics are the queues' logs; *linelog.Log has them.
type Topics interface {
	EnsureQueue(ctx context.Context, id queue.ID) (topicID string, created bool, err error)
	Bounds(ctx context.Context, id queue.ID) (first, next queue.Ticket, err error)
	DeleteQueue(ctx context.Context, id queue.ID) error
}

// EditorConfig of an Editor. The zero value has no draws, and nothing but topics to remove.
type EditorConfig struct {
	// Sealer hides the seeds of draws. Nil: no queue can be made that draws lots.
	Sealer *pass.Sealer
	// Drop removes what is not in the log of a queue that is being deleted: its line in Redis. Calling it twice is fine.
	Drop func(ctx context.Context, id queue.ID) error
	// LetGo is how long a deletion waits, after every process was told, until it removes what they work on. Default 2 s, negative: not
	// at all.
	LetGo time.Duration
	Now   func() time.Time // default time.Now
}

// Editor changes the catalogue for operators. It holds no state, and several processes may have one each.
type Editor struct {
	cfg    EditorConfig
	writer Writer
	topics Topics
	logger *zap.Logger
	edits  *prometheus.CounterVec
}

// The refusals of an Editor, by errors.Is. Nothing was changed.
var (
	ErrExists   = errors.New("there is a queue of that name already")
	ErrNotFound = errors.New("there is no such queue")
	ErrConflict = errors.New("the queue was changed meanwhile") // a *ConflictError
	ErrDeleting = errors.New("the queue is being deleted: delete it again to finish that")
	ErrRecords  = errors.New("there is no such queue, but a topic of that name that holds records")
	ErrInvalid  = errors.New("the settings can't be taken") // an *InvalidError
)

// ErrUnfinished says that a deletion was begun and is to be done again: nobody uses the queue any more, and not all of it is removed.
var ErrUnfinished = errors.New("the queue is marked as deleted, and not all of it is removed yet: delete it again")

// ConflictError is ErrConflict, and says which version there is.
type ConflictError struct{ Wanted, Current int64 }

func (e *ConflictError) Error() string {
	return fmt.Sprintf("the queue has version %d, not %d: it was changed meanwhile", e.Current, e.Wanted)
}

// Is makes it ErrConflict.
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// InvalidError is ErrInvalid, and lists every mistake.
type InvalidError struct{ Mistakes []string }

func (e *InvalidError) Error() string { return fmt.Sprintf("%v: %q", ErrInvalid, e.Mistakes) }

// Is makes it ErrInvalid.
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

// AnyVersion is for a change that is meant whatever the queue has become meanwhile.
const AnyVersion int64 = 0

// DefaultLetGo is within what every process obeys a change in.
const DefaultLetGo = 2 * time.Second

// NewEditor makes an Editor.
func NewEditor(cfg EditorConfig, writer Writer, topics Topics, logger *zap.Logger, reg prometheus.Registerer) (*Editor, error) {
	if cfg.LetGo == 0 {
		cfg.LetGo = DefaultLetGo
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Drop == nil {
		cfg.Drop = func(context.Context, queue.ID) error { return nil }
	}
	e := &Editor{cfg: cfg, writer: writer, topics: topics, logger: logger, edits: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "soonbeon_catalog_edits_total", Help: "Changes that operators asked this process for, by action and result.",
	}, []string{"action", "result"})}
	if reg != nil {
		if err := reg.Register(e.edits); err != nil {
			return nil, fmt.Errorf("catalogue editor: register metrics: %w", err)
		}
	}
	return e, nil
}

// The actions, as the record of changes names them. Made is that of Adopt; gone is the last step of delete.
const (
	ActionCreate = "create"
	ActionAdopt  = "adopt"
	ActionSet    = "set"
	ActionPause  = "pause"
	ActionResume = "resume"
	ActionClose  = "close"
	ActionDelete = "delete"
	ActionGone   = "gone"
)

// Create makes a queue, its topic included. Errors: ErrInvalid, ErrExists, ErrDeleting, ErrRecords, and the log's.
func (e *Editor) Create(ctx context.Context, who string, id queue.ID, s queue.Settings) (*queue.Entry, error) {
	made, err := e.create(ctx, who, ActionCreate, id, s)
	return made, e.count(ActionCreate, id, err)
}

// Adopt makes a queue out of a topic that may hold records, or returns the one that the catalogue has, with the settings that it has: for
// queues that are named at the start of a process. Errors: ErrInvalid, ErrDeleting, and the log's.
func (e *Editor) Adopt(ctx context.Context, who string, id queue.ID, s queue.Settings) (*queue.Entry, error) {
	made, err := e.create(ctx, who, ActionAdopt, id, s)
	return made, e.count(ActionAdopt, id, err)
}

func (e *Editor) create(ctx context.Context, who, action string, id queue.ID, s queue.Settings) (*queue.Entry, error) {
	var mistakes []string
	if _, err := queue.ParseID(string(id)); err != nil {
		mistakes = append(mistakes, err.Error())
	}
	mistakes = append(mistakes, complaints(s.Validate())...)
	if s.Order == queue.ByDraw && e.cfg.Sealer == nil {
		mistakes = append(mistakes, "opening order draw can't be had here: this process has no secret to seal the seed with")
	}
	if len(mistakes) > 0 {
		return nil, &InvalidError{mistakes}
	}
	next := &queue.Entry{ID: id, Settings: s}
	if s.Order == queue.ByDraw {
		seed := pass.NewSeed()
		next.Commitment, next.Sealed = queue.Commitment(id, seed), e.cfg.Sealer.Seal(id, seed)
	}
	return e.writer.Edit(ctx, id, func(current *queue.Entry) (*queue.Entry, *queue.Change, error) {
		switch {
		case current == nil:
		case current.Deleting:
			return nil, nil, ErrDeleting
		case action == ActionAdopt:
			return nil, nil, nil
		default:
			return nil, nil, ErrExists
		}
		// The topic first: what is in the catalogue can be entered. If the entry then isn't written, an empty topic is left, which
		// the next attempt takes.
		if _, _, err := e.topics.EnsureQueue(ctx, id); err != nil {
			return nil, nil, away("its topic", err)
		}
		if action == ActionCreate {
			_, end, err := e.topics.Bounds(ctx, id)
			if err != nil {
				return nil, nil, away("its topic", err)
			}
			if end > 1 {
				return nil, nil, ErrRecords
			}
		}
		return next, e.change(who, action, nil, next), nil
	})
}

// Put replaces the settings of a queue that has version ifMatch, or any. Settings that are the queue's already change nothing, whatever
// the version. Errors: ErrInvalid, ErrNotFound, ErrConflict, ErrDeleting, and the log's.
func (e *Editor) Put(ctx context.Context, who string, id queue.ID, s queue.Settings, ifMatch int64) (*queue.Entry, error) {
	if mistakes := complaints(s.Validate()); len(mistakes) > 0 {
		return nil, e.count(ActionSet, id, &InvalidError{mistakes})
	}
	return e.edit(ctx, who, ActionSet, id, ifMatch, func(next *queue.Entry) error {
		if s.Order != next.Settings.Order {
			return &InvalidError{[]string{fmt.Sprintf("opening order is %v since the queue was made, and can't become %v: make a new queue", next.Settings.Order, s.Order)}}
		}
		next.Settings = s
		return nil
	})
}

// Pause lets nobody in until Resume; who waits keeps the place. A message, if there is one, is shown to them from now on, and "" shows none.
// Errors: ErrInvalid, ErrNotFound, ErrConflict, ErrDeleting, and the log's.
func (e *Editor) Pause(ctx context.Context, who string, id queue.ID, message *string, ifMatch int64) (*queue.Entry, error) {
	return e.edit(ctx, who, ActionPause, id, ifMatch, func(next *queue.Entry) error {
		next.Paused = true
		return say(next, message)
	})
}

// Resume undoes pause and closing: people are let in and taken in again. Who was in line when it was ended is not: they enter anew.
// message is as in Pause. Errors: as Pause.
func (e *Editor) Resume(ctx context.Context, who string, id queue.ID, message *string, ifMatch int64) (*queue.Entry, error) {
	return e.edit(ctx, who, ActionResume, id, ifMatch, func(next *queue.Entry) error {
		next.Paused, next.Closed, next.Ending, next.Why = false, false, false, ""
		return say(next, message)
	})
}

// Close takes nobody into the line any more, for the reason why ("": queue.WhyClosed). Who waits is let through, or, with ending, told
// that it is over, for the same reason. Errors: as Pause.
func (e *Editor) Close(ctx context.Context, who string, id queue.ID, why string, ending bool, ifMatch int64) (*queue.Entry, error) {
	if why == "" {
		why = queue.WhyClosed
	}
	return e.edit(ctx, who, ActionClose, id, ifMatch, func(next *queue.Entry) error {
		if err := queue.CheckWhy(why); err != nil {
			return &InvalidError{[]string{err.Error()}}
		}
		next.Closed, next.Ending, next.Why = true, ending, why
		return nil
	})
}

// Delete removes a queue and everything of it: every process lets go of it, then its log and its line are removed, then its name
// is free. Each step may be done again, so a deletion that was cut short is finished by the next one. Errors: ErrNotFound, ErrConflict,
// and the log's and Redis'.
func (e *Editor) Delete(ctx context.Context, who string, id queue.ID, ifMatch int64) error {
	return e.count(ActionDelete, id, e.delete(ctx, who, id, ifMatch))
}

func (e *Editor) delete(ctx context.Context, who string, id queue.ID, ifMatch int64) error {
	marked, err := e.writer.Edit(ctx, id, func(current *queue.Entry) (*queue.Entry, *queue.Change, error) {
		switch {
		case current == nil:
			return nil, nil, ErrNotFound
		case current.Deleting:
			return nil, nil, nil
		case ifMatch != AnyVersion && ifMatch != current.Version:
			return nil, nil, &ConflictError{ifMatch, current.Version}
		}
		next := *current
		next.Deleting = true
		return &next, e.change(who, ActionDelete, current, &next), nil
	})
	if err != nil {
		return err
	}
	if err := lifecycle.Pause(ctx, e.cfg.LetGo); err != nil {
		return fmt.Errorf("%w: %w", ErrUnfinished, err)
	}
	if err := e.topics.DeleteQueue(ctx, id); err != nil {
		return fmt.Errorf("%w: %w", ErrUnfinished, away("its log", err))
	}
	if err := e.cfg.Drop(ctx, id); err != nil {
		return fmt.Errorf("%w: its line: %w", ErrUnfinished, err)
	}
	_, err = e.writer.Edit(ctx, id, func(current *queue.Entry) (*queue.Entry, *queue.Change, error) {
		if current == nil || current.Made != marked.Made {
			return nil, nil, nil // another deletion was faster
		}
		return nil, e.change(who, ActionGone, current, nil), nil
	})
	if err != nil {
		return fmt.Errorf("%w: its name: %w", ErrUnfinished, err)
	}
	e.logger.Info("deleted a queue", zap.String("queue", string(id)))
	return nil
}

// edit changes the entry of a queue that is there, if it is of version ifMatch, or becomes what it is.
func (e *Editor) edit(ctx context.Context, who, action string, id queue.ID, ifMatch int64, change func(next *queue.Entry) error) (*queue.Entry, error) {
	after, err := e.writer.Edit(ctx, id, func(current *queue.Entry) (*queue.Entry, *queue.Change, error) {
		switch {
		case current == nil:
			return nil, nil, ErrNotFound
		case current.Deleting:
			return nil, nil, ErrDeleting
		}
		next := *current
		if err := change(&next); err != nil {
			return nil, nil, err
		}
		switch {
		case same(current, &next):
			return nil, nil, nil
		case ifMatch != AnyVersion && ifMatch != current.Version:
			return nil, nil, &ConflictError{ifMatch, current.Version}
		}
		e.logger.Info("an operator changes a queue", zap.String("action", action), zap.String("queue", string(id)), zap.String("who", who))
		return &next, e.change(who, action, current, &next), nil
	})
	return after, e.count(action, id, err)
}

// same says that b, which was changed from a, is as a was, in what operators change.
func same(a, b *queue.Entry) bool {
	return a.Settings.Equal(b.Settings) && a.Paused == b.Paused && a.Closed == b.Closed && a.Ending == b.Ending && a.Why == b.Why
}

func say(next *queue.Entry, message *string) error {
	if message == nil {
		return nil
	}
	if err := queue.CheckMessage(*message); err != nil {
		return &InvalidError{[]string{err.Error()}}
	}
	next.Settings.Message = *message
	return nil
}

// away marks what the brokers did not do as linelog.ErrBusy; a topic that doesn't fit stays what it is.
func away(what string, err error) error {
	if errors.As(err, new(*linelog.SettingError)) {
		return err
	}
	return fmt.Errorf("%s: %w", what, errors.Join(linelog.ErrBusy, err))
}

// change is the record of a change that is about to be made. The version of what comes is not known yet, so it is not in it.
func (e *Editor) change(who, action string, from, to *queue.Entry) *queue.Change {
	now := e.cfg.Now()
	c := &queue.Change{Who: who, AtMs: now.UnixMilli(), Action: action}
	show := func(q *queue.Entry) string {
		if q == nil {
			return ""
		}
		c.Queue = q.ID
		d := Show(q, now)
		if q == to {
			d.Version = 0
		}
		b, err := json.Marshal(d)
		if err != nil { // settings that a newer version wrote, at the worst
			return ""
		}
		return string(b)
	}
	c.From, c.To = show(from), show(to)
	return c
}

// count counts an edit by how it ended, and tells the process's log why one failed.
func (e *Editor) count(action string, id queue.ID, err error) error {
	result := "ok"
	switch {
	case err == nil:
	case errors.Is(err, ErrExists), errors.Is(err, ErrNotFound), errors.Is(err, ErrConflict), errors.Is(err, ErrDeleting), errors.Is(err, ErrRecords), errors.Is(err, ErrInvalid):
		result = "refused"
	default:
		result = "failed"
		e.logger.Warn("an operator's change failed", zap.String("action", action), zap.String("queue", string(id)), zap.Error(err))
	}
	e.edits.WithLabelValues(action, result).Inc()
	return err
}
