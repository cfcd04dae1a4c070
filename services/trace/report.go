package trace

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/zap"
)

// reportEvery is how often the log says that traces can't be sent: a collector that is away for an hour fails each few seconds.
const reportEvery = time.Minute

// reporter takes what OpenTelemetry's library says, which would go to standard error as plain lines. It keeps the values of settings to itself, since
// those of OTEL_EXPORTER_OTLP_HEADERS are secrets.
type reporter struct {
	logger *zap.Logger
	now    func() time.Time

	mu       sync.Mutex
	starting bool
	wrong    []error // while starting
	told     time.Time
	untold   int // since then
}

// Handle is otel.ErrorHandler's.
func (r *reporter) Handle(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.starting {
		r.wrong = append(r.wrong, err)
		return
	}
	now := r.now()
	if !r.told.IsZero() && now.Sub(r.told) < reportEvery {
		r.untold++
		return
	}
	r.logger.Warn("traces can't be sent; they are thrown away", zap.Error(err), zap.Int("not_logged_since_the_last", r.untold))
	r.told, r.untold = now, 0
}

// started ends the start, and returns what was wrong with the settings.
func (r *reporter) started() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := errors.Join(r.wrong...)
	r.starting, r.wrong = false, nil
	return err
}

// sink is what the library logs by itself.
type sink struct{ *reporter }

func (sink) Init(logr.RuntimeInfo)              {}
func (s sink) WithName(string) logr.LogSink     { return s }
func (s sink) WithValues(...any) logr.LogSink   { return s }
func (sink) Enabled(level int) bool             { return level <= 1 } // its warnings
func (s sink) Info(_ int, msg string, _ ...any) { s.logger.Debug(msg) }
func (s sink) Error(err error, msg string, _ ...any) {
	s.Handle(fmt.Errorf("%s: %w", msg, err))
}
