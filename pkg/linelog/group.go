package linelog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

// The defaults of GroupConfig.
const (
	DefaultSession   = 4 * time.Second
	DefaultHeartbeat = 500 * time.Millisecond
)

// GroupConfig says what to share out, and how soon a dead member is noticed.
type GroupConfig struct {
	Group  string     // the same for all who share the queues
	Queues []queue.ID // all of them at first, the same for every member; Membership.Set changes them. Their topics should exist
	// Session is how long a member may be silent before its queues go to others; default 4 s. Brokers have a lower limit
	// (group.min.session.timeout.ms, 6 s unless set): where it is higher, it counts.
	Session   time.Duration
	Heartbeat time.Duration // default 500 ms; how soon members hear of a change, too. At most a third of Session
}

func (c GroupConfig) withDefaults() GroupConfig {
	if c.Session == 0 {
		c.Session = DefaultSession
	}
	if c.Heartbeat == 0 {
		c.Heartbeat = min(DefaultHeartbeat, c.Session/3)
	}
	return c
}

func (c GroupConfig) validate() error {
	var errs []error
	if c.Group == "" {
		errs = append(errs, errors.New("group: give it a name"))
	}
	for _, id := range c.Queues {
		if _, err := queue.ParseID(string(id)); err != nil {
			errs = append(errs, err)
		}
	}
	if c.Session < 300*time.Millisecond {
		errs = append(errs, fmt.Errorf("group: session is at least 300ms, not %v", c.Session))
	}
	if c.Heartbeat < 10*time.Millisecond || c.Heartbeat > c.Session/3 {
		errs = append(errs, fmt.Errorf("group: heartbeat is 10ms to a third of the session (%v), not %v", c.Session/3, c.Heartbeat))
	}
	return errors.Join(errs...)
}

// Membership is a place among those who share a group's queues. A Kafka consumer group is used for its assignment only:
// nothing is fetched through it, and nothing is committed.
//
//	                 assigned                revoked: another gets it, once lost has returned
//	(nobody's) ────────────────▶ ours ────────────────────────────────────▶ (another's)
//	                               │  no heartbeat for a session: lost
//	                               └────────────────────────────────────▶ (another's, perhaps already)
type Membership struct {
	log            *Log
	cfg            GroupConfig
	assigned, lost func(queue.ID)
	logger         *zap.Logger
	cancel         context.CancelFunc
	stopped        chan struct{} // closed when the client is gone
	calls          chan struct{} // closed when the last call has returned

	mu      sync.Mutex
	pending []event
	ended   bool
	wake    chan struct{}     // holds one token when pending has grown or ended is set
	wanted  map[queue.ID]bool // what the last Set said
	changed chan struct{}     // holds one token when wanted is another than the client knows
}

// event is one change of the assignment, or of what is wanted; done is closed when its calls have returned.
type event struct {
	gained, gone []queue.ID
	wanted       map[queue.ID]bool // nil: as before
	done         chan struct{}
}

// setPause is the least time between two changes of what the group is told of: whoever makes a thousand queues one by one
// should not make the members begin anew a thousand times.
const setPause = 250 * time.Millisecond

// Join begins a membership and returns at once; it joins as soon as the brokers answer, and again whenever it was thrown
// out, until Close. assigned and lost are called one after another and never at once, in the order of the events; a queue
// that is assigned is lost exactly once before it is assigned again. lost should return quickly: a queue that moves to a
// living member waits for it, up to half a session.
func (l *Log) Join(ctx context.Context, cfg GroupConfig, assigned, lost func(queue.ID)) (*Membership, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	m := &Membership{
		log: l, cfg: cfg, assigned: assigned, lost: lost, cancel: cancel,
		logger:  l.logger.With(zap.String("group", cfg.Group)),
		stopped: make(chan struct{}), calls: make(chan struct{}), wake: make(chan struct{}, 1), changed: make(chan struct{}, 1),
	}
	m.Set(cfg.Queues)
	go m.dispatch()
	go m.run(ctx)
	return m, nil
}

// Set says which queues there are from now on. Those that are new are shared out among all members that know of them, within
// a second or so; lost is called for those that are ours and no longer wanted, at once, whether their topics are there still
// or not. It returns without waiting for any of it.
func (m *Membership) Set(ids []queue.ID) {
	wanted := make(map[queue.ID]bool, len(ids))
	for _, id := range ids {
		wanted[id] = true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended {
		return
	}
	m.wanted = wanted
	m.pending = append(m.pending, event{wanted: wanted, done: make(chan struct{})})
	m.signal()
	select {
	case m.changed <- struct{}{}:
	default:
	}
}

// Close calls lost for everything that is ours, then leaves the group, so that others take over at once. It returns when
// lost has returned and the brokers were told, or within about two seconds if they don't answer. Closing twice is fine.
// The end of Join's context does the same in the background.
func (m *Membership) Close() {
	m.cancel()
	<-m.stopped
	<-m.calls
}

const leaveTimeout = 2 * time.Second

// run holds the client for as long as ctx lives.
func (m *Membership) run(ctx context.Context) {
	defer close(m.stopped)
	defer m.finish()
	session := m.session(ctx)
	if ctx.Err() != nil {
		return
	}
	client, err := m.log.newClient(
		kgo.ConsumerGroup(m.cfg.Group),
		// Cooperative: whoever keeps a queue goes on leading it while others come and go.
		kgo.Balancers(kgo.CooperativeStickyBalancer()),
		kgo.SessionTimeout(session),
		kgo.HeartbeatInterval(m.cfg.Heartbeat),
		// A member that hangs in the middle of a change holds up the others for no longer than one that died.
		kgo.RebalanceTimeout(session),
		kgo.DisableAutoCommit(),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, parts map[string][]int32) { m.queue(parts, nil) }),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, parts map[string][]int32) {
			done := m.queue(nil, parts)
			t := time.NewTimer(session / 2)
			defer t.Stop()
			select {
			case <-done:
			case <-t.C:
				m.logger.Warn("giving a queue up takes long; it is handed over all the same")
			}
		}),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, parts map[string][]int32) { m.queue(nil, parts) }),
	)
	if err != nil {
		m.logger.Error("cannot join the group", zap.Error(err))
		return
	}
	m.follow(ctx, client)
	// What is ours is given up first: whoever takes over finds nobody leading.
	<-m.finish()
	leaveCtx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	if err := client.LeaveGroupContext(leaveCtx); err != nil {
		m.logger.Warn("could not leave the group; its other members wait for the session to end", zap.Error(err))
	}
	client.CloseAllowingRebalance()
}

// follow tells the client what is wanted, until ctx ends.
func (m *Membership) follow(ctx context.Context, client *kgo.Client) {
	told := make(map[queue.ID]bool)
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.changed:
		}
		m.mu.Lock()
		wanted := m.wanted
		m.mu.Unlock()
		var add, drop []string
		for id := range wanted {
			if !told[id] {
				add = append(add, TopicOf(id))
			}
		}
		for id := range told {
			if !wanted[id] {
				drop = append(drop, TopicOf(id))
			}
		}
		told = wanted
		client.PauseFetchTopics(add...) // nothing is ever read through the group
		client.AddConsumeTopics(add...)
		if len(drop) > 0 {
			purged := make(chan struct{})
			go func() { // it waits for brokers that are away
				defer close(purged)
				client.PurgeTopicsFromConsuming(drop...)
			}()
			select {
			case <-purged:
			case <-ctx.Done():
				return
			}
		}
		if sleep(ctx, setPause) != nil {
			return
		}
	}
}

// session asks the brokers for their lower limit.
func (m *Membership) session(ctx context.Context) time.Duration {
	const key = "group.min.session.timeout.ms"
	for fails := 1; ctx.Err() == nil; fails++ {
		least, err := m.log.leastBrokerMillis(ctx, key)
		switch {
		case err == nil && least > m.cfg.Session:
			m.logger.Warn("the brokers don't allow so short a session; a crashed leader is replaced later than asked for",
				zap.String("setting", key), zap.Duration("theirs", least), zap.Duration("asked", m.cfg.Session))
			return least
		case err == nil:
			return m.cfg.Session
		case errors.Is(err, errNotTold):
			m.logger.Warn("the brokers don't tell their shortest session; trying with ours", zap.Error(err))
			return m.cfg.Session
		}
		if fails == 1 && ctx.Err() == nil {
			m.logger.Warn("waiting for the brokers to join the group", zap.Error(err))
		}
		_ = sleep(ctx, backoff(fails))
	}
	return m.cfg.Session
}

// queue puts an event behind those that wait and returns what is closed when it was dealt with.
func (m *Membership) queue(gained, gone map[string][]int32) <-chan struct{} {
	e := event{gained: idsOf(gained), gone: idsOf(gone), done: make(chan struct{})}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended {
		close(e.done)
		return e.done
	}
	m.pending = append(m.pending, e)
	m.signal()
	return e.done
}

// finish queues the loss of everything and lets nothing in after it. The channel is closed when all calls have returned.
func (m *Membership) finish() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended = true
	m.signal()
	return m.calls
}

func (m *Membership) signal() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// dispatch makes the calls. It alone knows what is ours as the caller sees it: what the group gave us, and is wanted.
func (m *Membership) dispatch() {
	defer close(m.calls)
	var wanted map[queue.ID]bool
	held, ours := make(map[queue.ID]bool), make(map[queue.ID]bool)
	settle := func(ids []queue.ID) {
		for _, id := range ids {
			switch should := held[id] && wanted[id]; {
			case ours[id] && !should:
				delete(ours, id)
				m.lost(id)
			case !ours[id] && should:
				ours[id] = true
				m.assigned(id)
			}
		}
	}
	for {
		<-m.wake
		m.mu.Lock()
		events, ended := m.pending, m.ended
		m.pending = nil
		m.mu.Unlock()
		for _, e := range events {
			for _, id := range e.gone {
				delete(held, id)
			}
			settle(e.gone)
			if !ended { // at the end nothing more is begun
				for _, id := range e.gained {
					held[id] = true
				}
				settle(e.gained)
			}
			if e.wanted != nil {
				wanted = e.wanted
				if !ended {
					settle(slices.Sorted(maps.Keys(held)))
				}
			}
			close(e.done)
		}
		if ended {
			clear(held)
			settle(slices.Sorted(maps.Keys(ours)))
			return
		}
	}
}

func idsOf(parts map[string][]int32) []queue.ID {
	var ids []queue.ID
	for topic := range parts {
		if id, ok := strings.CutPrefix(topic, topicPrefix); ok {
			ids = append(ids, queue.ID(id))
		}
	}
	slices.Sort(ids)
	return ids
}

// errNotTold: the brokers answer, but not with the setting.
var errNotTold = errors.New("setting not told")

// leastBrokerMillis returns the highest value among the brokers of a setting in milliseconds.
func (l *Log) leastBrokerMillis(ctx context.Context, key string) (time.Duration, error) {
	brokers, err := l.admin.ListBrokers(ctx)
	if err != nil {
		return 0, fmt.Errorf("list the brokers: %w", err)
	}
	rcs, err := l.admin.DescribeBrokerConfigs(ctx, brokers.NodeIDs()...)
	if err != nil {
		return 0, fmt.Errorf("describe the brokers: %w", err)
	}
	var highest time.Duration
	told := false
	for _, rc := range rcs {
		if rc.Err != nil {
			return 0, fmt.Errorf("%w: %w", errNotTold, rc.Err)
		}
		if ms, err := strconv.ParseInt(configValues(rc)[key], 10, 64); err == nil {
			highest, told = max(highest, time.Duration(ms)*time.Millisecond), true
		}
	}
	if !told {
		return 0, fmt.Errorf("%w: %s", errNotTold, key)
	}
	return highest, nil
}
