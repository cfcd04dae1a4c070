package admin

import (
	"context"
	"errors"
	"time"

	"github.com/soonbeon/soonbeon/pkg/linelog"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/catalog"
	"github.com/soonbeon/soonbeon/services/httpapi"
)

// errReading marks what went wrong while nothing was to be changed.
var errReading = errors.New("reading the changes")

func unknown(id queue.ID) error {
	return httpapi.Problemf(httpapi.QueueUnknown, "there is no queue %s", id)
}

// problem says what an Editor's error is to a client. What it doesn't know of is returned as it is.
func problem(id queue.ID, err error) error {
	var conflict *catalog.ConflictError
	var wrong *catalog.InvalidError
	var misfit *linelog.SettingError
	switch {
	case errors.As(err, &wrong):
		return invalid(wrong.Mistakes)
	case errors.As(err, &conflict):
		return httpapi.Problemf(httpapi.QueueChanged, "%v; nothing was changed: look at it again", conflict).With("version", conflict.Current)
	case errors.Is(err, catalog.ErrNotFound):
		return unknown(id)
	case errors.Is(err, catalog.ErrExists):
		return httpapi.Problemf(httpapi.QueueExists, "%v; nothing was changed", catalog.ErrExists)
	case errors.Is(err, catalog.ErrDeleting):
		return httpapi.Problemf(httpapi.QueueDeleting, "%v", catalog.ErrDeleting)
	case errors.Is(err, catalog.ErrRecords):
		return httpapi.Problemf(httpapi.QueueHasRecords, "%v; nothing was changed", catalog.ErrRecords)
	case errors.As(err, &misfit):
		return httpapi.Problemf(httpapi.LogTrouble, "nothing was changed: %v", misfit).After(time.Minute)
	case errors.Is(err, catalog.ErrUnfinished) && ofLog(err):
		return httpapi.Problemf(httpapi.LogUnavailable, "%v", catalog.ErrUnfinished).After(2 * time.Second)
	case errors.Is(err, catalog.ErrUnfinished):
		return httpapi.Problemf(httpapi.ViewUnavailable, "%v, when Redis answers", catalog.ErrUnfinished).After(5 * time.Second)
	case errors.Is(err, errReading) && ofLog(err):
		return httpapi.Problemf(httpapi.LogUnavailable, "the changes can't be read now").After(2 * time.Second)
	case errors.Is(err, linelog.ErrUnknown), errors.Is(err, linelog.ErrClosed) && !errors.Is(err, linelog.ErrBusy):
		return httpapi.Problemf(httpapi.LogUnavailable, "not known to be written; do it again, or look first").After(2 * time.Second)
	case errors.Is(err, linelog.ErrBusy):
		return httpapi.Problemf(httpapi.Overloaded, "nothing was changed: the brokers do not answer, or others change the catalogue all the time").After(2 * time.Second)
	case ofLog(err):
		return httpapi.Problemf(httpapi.LogUnavailable, "it took too long and may be done in part; do it again").After(2 * time.Second)
	}
	return err
}

func ofLog(err error) bool {
	return errors.Is(err, linelog.ErrUnknown) || errors.Is(err, linelog.ErrBusy) || errors.Is(err, linelog.ErrClosed) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}
