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
	//go:embed lua/load.lua
	loadLua string
)

type scripts struct{ apply, admit, places, load *redis.Script }

func newScripts() scripts {
	return scripts{redis.NewScript(applyLua), redis.NewScript(admitLua), redis.NewScript(placesLua), redis.NewScript(loadLua)}
}
