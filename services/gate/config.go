package gate

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"time"

	sitegate "github.com/soonbeon/soonbeon/pkg/gate"
	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/pkg/queue"
)

// Config of the service. The tags are those of the command line; the environment has each as SOONBEON_<NAME>.
type Config struct {
	Listen string `help:"Address that proxies ask at." default:"127.0.0.1:8090"`
	Admin  string `help:"Address of the private port: health, readiness, metrics." default:"127.0.0.1:8091"`

	Queues      []string `help:"Queues that the site is behind; the path that is asked names one of them." default:"main"`
	WaitingRoom string   `help:"Where people wait, as browsers see it: https://wait.example. Without a path it is the waiting page of soonbeon there." required:""`
	Site        string   `help:"The origin of the protected site as browsers see it: https://shop.example. Without it, people are sent back to a path, and the waiting room has to know the origin."`

	Room string `help:"Where to ask the waiting room which queue of each name there is, now and then (/queue/info), so that one that was deleted and made again has no more visitors of the one before: http://soonbeon-position:8080, or none. Default: where --waiting-room is."`

	Keys     string `help:"Keys that entry tokens are signed with: kid:base64, separated by commas. Better by the environment than here."`
	KeysFile string `help:"A file with such keys, one a line or separated by commas; goes before --keys." placeholder:"FILE"`

	Protect  []string `help:"Paths behind the gate, each with everything below it. Default: all that is asked about."`
	Exempt   []string `help:"Paths that are not. Of two that cover a path the longer counts."`
	FoldCase bool     `help:"Compare paths in small letters, for a site that does not mind the case."`

	Preflights bool `help:"Let CORS preflights past to the site; for one that answers OPTIONS with CORS headers and nothing else."`

	SingleUse bool                     `help:"Let each entry token in once; the browser goes on by a session. Needs --redis."`
	OpenFor   map[string]time.Duration `help:"By queue, how long to let people in unchecked by valid tokens in an outage of Redis, with --single-use. Default: closed." placeholder:"QUEUE=TIME"`
	OpenAfter time.Duration            `help:"How long Redis must have been away, without one answer, before that." default:"5s"`

	TrustedProxies []string `help:"Addresses and networks of proxies that may say what a request is for." default:"127.0.0.0/8,::1/128"`
}

// parsed is what a Config says, checked.
type parsed struct {
	ids     []queue.ID
	keys    *pass.Keys
	openFor map[queue.ID]time.Duration
	trusted []netip.Prefix
	rooms   map[queue.ID]*sitegate.Room // empty: none is asked
}

// parse names every mistake at once, by flag.
func (c *Config) parse() (*parsed, error) {
	p := &parsed{openFor: map[queue.ID]time.Duration{}, rooms: map[queue.ID]*sitegate.Room{}}
	var errs []error
	bad := func(flag string, err error) { errs = append(errs, fmt.Errorf("%s: %w", flag, err)) }
	known := map[string]bool{}
	for _, s := range c.Queues {
		id, err := queue.ParseID(s)
		switch {
		case err != nil:
			bad("--queues", err)
		case known[s]:
			bad("--queues", fmt.Errorf("%s is given twice", s))
		}
		known[s] = true
		p.ids = append(p.ids, id)
	}
	if len(c.Queues) == 0 {
		bad("--queues", errors.New("none is given"))
	}
	keys, err := c.keyText()
	if err == nil {
		p.keys, err = pass.ParseKeys(keys)
	}
	if err != nil {
		bad("--keys (or SOONBEON_KEYS), the keys that the waiting room signs with", err)
	}
	if room := cmp.Or(c.Room, c.WaitingRoom); room != "none" {
		for _, id := range p.ids {
			if p.rooms[id], err = sitegate.NewRoom(room, id, nil); err != nil && c.Room != "" { // --waiting-room is looked at elsewhere
				bad("--room", err)
				break
			}
		}
	}
	for id, d := range c.OpenFor {
		switch {
		case !known[id]:
			bad("--open-for", fmt.Errorf("%.64q is none of --queues", id))
		case d <= 0:
			bad("--open-for", fmt.Errorf("%s: %v is no time", id, d))
		case !c.SingleUse:
			bad("--open-for", errors.New("without --single-use the gate can always tell"))
		}
		p.openFor[queue.ID(id)] = d
	}
	for _, s := range c.TrustedProxies {
		prefix, err := netip.ParsePrefix(s)
		if err != nil {
			var addr netip.Addr
			if addr, err = netip.ParseAddr(s); err == nil {
				prefix = netip.PrefixFrom(addr, addr.BitLen())
			}
		}
		if err != nil {
			bad("--trusted-proxies", fmt.Errorf("%.64q is neither an address nor a network such as 10.0.0.0/8", s))
			continue
		}
		p.trusted = append(p.trusted, prefix.Masked())
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return p, nil
}

func (c *Config) keyText() (string, error) {
	if c.KeysFile == "" {
		return c.Keys, nil
	}
	b, err := os.ReadFile(c.KeysFile)
	if err != nil {
		return "", fmt.Errorf("read --keys-file: %w", err)
	}
	return strings.Join(strings.Fields(strings.ReplaceAll(string(b), ",", " ")), ","), nil
}
