package httpapi

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// Config of an echo instance.
type Config struct {
	// TrustedOrigins may post from a page of theirs, each as scheme://host[:port]. The zero value trusts only pages of the
	// origin that is posted to.
	TrustedOrigins []string
}

// New makes the echo instance that services register their handlers on. Several services may share one; two instances
// on one registerer share the metrics. Serve it by NewServer.
func New(cfg Config, logger *zap.Logger, reg prometheus.Registerer) (*echo.Echo, error) {
	m, err := newMetrics(reg)
	if err != nil {
		return nil, err
	}
	origins := http.NewCrossOriginProtection()
	var errs []error
	for _, o := range cfg.TrustedOrigins {
		if err := origins.AddTrustedOrigin(o); err != nil {
			errs = append(errs, fmt.Errorf("trusted origin %.80q: %w", o, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}

	a := &api{logger: logger, metrics: m, origins: origins}
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.Logger.SetOutput(io.Discard) // whatever matters goes to zap
	e.IPExtractor = echo.ExtractIPDirect()
	e.HTTPErrorHandler = a.answerError
	e.Use(a.serve)
	return e, nil
}

type api struct {
	logger  *zap.Logger
	metrics *metrics
	origins *http.CrossOriginProtection
}

// serve is around everything, routes that don't exist included. It is one middleware, since each costs the hot path.
func (a *api) serve(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		began := time.Now()
		if err := a.handle(next, c); err != nil {
			a.answerError(err, c)
		}
		a.metrics.observe(c.Path(), c.Response().Status, time.Since(began))
		return nil
	}
}

func (a *api) handle(next echo.HandlerFunc, c echo.Context) (err error) {
	defer func() {
		switch p := recover(); p {
		case nil:
		case http.ErrAbortHandler:
			panic(p) // how a handler asks net/http to drop the connection
		default:
			a.metrics.panics.Inc()
			err = panicked{p}
			a.logger.Error("handler panicked", zap.String("route", c.Path()), zap.Any("panic", p), zap.StackSkip("stack", 2))
		}
	}()
	if err := a.origins.Check(c.Request()); err != nil {
		return Problemf(CrossSite, "posts come from pages of this origin, from origins that are trusted, or from no browser")
	}
	return next(c)
}

// panicked marks what was logged already, with its stack.
type panicked struct{ value any }

func (panicked) Error() string { return "handler panicked" }

func (a *api) answerError(err error, c echo.Context) {
	p, expected := problemOf(err)
	if !expected && !errors.As(err, new(panicked)) {
		a.logger.Error("handler returned an error that is no problem", zap.String("route", c.Path()), zap.Error(err))
	}
	if c.Response().Committed {
		return // half an answer is out; the client sees that it is half
	}
	_ = WriteProblem(c, p)
}
