package linelog

import (
	"errors"
	"fmt"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

// The errors of appending and asking. Use errors.Is.
var (
	// ErrBusy: the buffer of waiting records is full, or the broker does not answer for those that wait. Nothing was written.
	ErrBusy = errors.New("the log takes no records now")
	// ErrUnknown: no acknowledgement came. The record may be in the log, or may not.
	ErrUnknown = errors.New("not known to be written")
	// ErrNoQueue: there is no such topic. Nothing was written.
	ErrNoQueue = errors.New("no such queue in the log")
	// ErrClosed: the Log, Writer or Reader was closed before the call. Nothing was written.
	ErrClosed = errors.New("closed")
)

// TroubleKind says how a log no longer fits what was read from it.
type TroubleKind uint8

// The kinds of trouble. None of them is mended by trying again: an operator decides.
const (
	Trimmed   TroubleKind = iota + 1 // the log starts after the ticket that was to be read next
	Short                            // the log ends before the last ticket that was read
	Recreated                        // the topic has another id than expected
	Gone                             // the topic was deleted
)

func (k TroubleKind) String() string {
	switch k {
	case Trimmed:
		return "trimmed"
	case Short:
		return "short"
	case Recreated:
		return "recreated"
	case Gone:
		return "gone"
	}
	return "unknown"
}

// TroubleError ends a Reader, or a CatalogReader.
type TroubleError struct {
	Queue   queue.ID // "" for the catalogue
	Kind    TroubleKind
	After   queue.Ticket // the last ticket that was read, or that reading was to start after
	First   queue.Ticket // Trimmed, Short: the first ticket still there
	Next    queue.Ticket // Trimmed, Short: the ticket that would be written next
	TopicID string       // Recreated: what the topic's id is now
	Wanted  string       // Recreated: what it should be
}

func (e *TroubleError) Error() string {
	log := "the log of queue " + string(e.Queue)
	if e.Queue == "" {
		log = "the catalogue"
	}
	switch e.Kind {
	case Trimmed:
		return fmt.Sprintf("%s was trimmed: it starts at ticket %d, and %d was to be read next", log, e.First, e.After+1)
	case Short:
		return fmt.Sprintf("%s is too short: its next ticket is %d, and %d was read already", log, e.Next, e.After)
	case Recreated:
		return fmt.Sprintf("%s was made anew: its topic id is %s, not %s", log, e.TopicID, e.Wanted)
	case Gone:
		return log + " was deleted"
	}
	return log + " is in unknown trouble"
}

// SettingError is one setting of a topic or a broker that does not fit, and what to do about it.
type SettingError struct {
	Of      string // "topic soonbeon.queue.main", "broker 1"
	Setting string
	Value   string
	Wanted  string
	Fix     string // a sentence; may be empty
}

func (e *SettingError) Error() string {
	s := fmt.Sprintf("%s: %s is %s, wanted %s", e.Of, e.Setting, e.Value, e.Wanted)
	if e.Fix != "" {
		s += ": " + e.Fix
	}
	return s
}
