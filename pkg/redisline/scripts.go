package redisline

import (
	_ "embed"

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed lua/apply.lua
	applyLua string
	//go:embed lua/admit.lua
	admitLua string
	//go:embed lua/places.lua
	placesLua string
)

type scripts struct{ apply, admit, places *redis.Script }

func newScripts() scripts {
	return scripts{redis.NewScript(applyLua), redis.NewScript(admitLua), redis.NewScript(placesLua)}
}
