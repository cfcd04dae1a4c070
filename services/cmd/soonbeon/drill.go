package main

import (
	"context"

	"go.uber.org/zap/zapcore"

	"github.com/soonbeon/soonbeon/services/drill"
)

type drillCmd struct{ drill.Config }

// Help is shown by --help.
func (drillCmd) Help() string {
	return "Puts a crowd before a waiting room, breaks its Redis, mends it again, watches from outside, then audits the log and writes a page. " +
		"Without --target it needs nothing but a redis-server on the PATH: it brings up its own system, kills its own Redis, and takes some 80 s. " +
		"Exit code 1 when a promise was broken, 3 when the rehearsal was not whole. docs/drill.md has an example."
}

func (c *drillCmd) Run(ctx context.Context, s streams) error {
	c.Progress = s.err
	// That Redis is away is what is rehearsed, and no news; only what must not happen is.
	logger := forPeople(s, zapcore.ErrorLevel)
	report, err := drill.Run(ctx, c.Config, s.out, logger)
	if err != nil {
		return err
	}
	if code := report.ExitCode(); code != drill.ExitOK {
		return exitCode(code)
	}
	return nil
}
