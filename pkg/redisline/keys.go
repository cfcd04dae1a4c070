package redisline

import "github.com/soonbeon/soonbeon/pkg/queue"

// keys are the Redis keys of one queue. They are a stored format: a test pins them.
type keys struct {
	line    string // ZSET visitor → ticket
	seq     string // string, INCR: the last ticket applied
	keys    string // HASH visitor → digest of the idempotency key, of those who sent one and wait by the log
	state   string // HASH served, epoch, rule, fence, batch, gone, topic, loaded, draw "at:from:seed", end "at:over:why"
	pending string // HASH visitor → "ticket:batch:stands"
	active  string // ZSET visitor → when the grant ends, Unix milliseconds
	pace    string // HASH tokens, at: the rate bucket, by Redis' own clock
	grant   string // prefix of the strings visitor → ticket, each with the grant's expiry

	load       string // HASH token, step: the load that is under way
	loadLine   string // what it puts beside line, keys and active
	loadKeys   string
	loadActive string
}

func keysOf(id queue.ID) keys {
	p := "soonbeon:{" + string(id) + "}:"
	return keys{p + "line", p + "seq", p + "keys", p + "state", p + "pending", p + "active", p + "pace", p + "grant:",
		p + "load", p + "load:line", p + "load:keys", p + "load:active"}
}
