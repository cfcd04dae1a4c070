package catalog

import (
	"context"

	"github.com/soonbeon/soonbeon/pkg/linelog"
)

// Source is the catalogue as it lies in the log; OfLog makes one.
type Source interface {
	// CatalogEnd is what a Reader's Position has to reach for everything to have been read that is there now.
	CatalogEnd(ctx context.Context) (int64, error)
	NewReader() Reader
}

// Reader reads the catalogue in order, from its beginning; *linelog.CatalogReader is one.
type Reader interface {
	// Next waits for records, through an absence of the brokers, until ctx ends. Once, when it has found nothing more, it returns
	// none. Any other error is for good.
	Next(ctx context.Context) ([]linelog.CatalogRecord, error)
	Position() int64
	Close()
}

// OfLog is the catalogue in log.
func OfLog(log *linelog.Log) Source { return ofLog{log} }

type ofLog struct{ *linelog.Log }

func (l ofLog) NewReader() Reader { return l.NewCatalogReader() }
