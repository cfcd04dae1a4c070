package main

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/soonbeon/soonbeon/services/e2e/realservers"
)

// One round of many deeds, so that it fits into CI; `make chaos` is the long one.
func TestRealChaos(t *testing.T) {
	realservers.Required(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	o := options{seed: 5, rounds: 1, lasts: time.Minute, deeds: 6, rate: 175, arrivals: 190, others: 150}
	require.NoError(t, unleash(ctx, o, t.TempDir(), t.Output()))
}
