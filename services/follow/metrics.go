package follow

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics of all the logs that a process follows: a collector that asks each Follower when it is asked itself, so that they
// cost nothing in between, and that a queue which is gone leaves no series behind.
type Metrics struct {
	mu        sync.Mutex
	followers map[*Follower]bool

	served, seq, admitted, void, skipped, different                                        *prometheus.Desc
	waiting, active, oldest, rate, entries, refreshes, repeated, refused, completed, ended *prometheus.Desc
}

// NewMetrics registers them; one for each registerer.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, []string{"queue"}, nil)
	}
	m := &Metrics{
		followers: map[*Follower]bool{},
		served:    desc("soonbeon_follow_served_ticket", "Highest ticket (number, where lots were drawn) that waits no more, as this process has read the log."),
		seq:       desc("soonbeon_follow_seq_ticket", "Last ticket of the log that this process has folded."),
		admitted:  desc("soonbeon_follow_admitted_total", "People validly admitted, as this process has read the log."),
		void:      desc("soonbeon_follow_void_total", "Records in the log that do not count: of a leader that did not lead any more, or repeated."),
		skipped:   desc("soonbeon_follow_skipped_total", "Records that could not be read and were skipped."),
		different: desc("soonbeon_follow_checkpoint_differs_total", "Checkpoints whose served is not what this process has folded."),

		waiting:   desc("soonbeon_queue_waiting_people", "People who wait, by the log."),
		active:    desc("soonbeon_queue_active_admissions", "Admissions that take a place of the capacity: not completed, and not ended for more than 30 s."),
		oldest:    desc("soonbeon_queue_oldest_wait_seconds", "How long who comes next has waited; 0 where nobody waits."),
		rate:      desc("soonbeon_queue_admitted_per_second", "People admitted a second, over the last minute."),
		entries:   desc("soonbeon_queue_entries_total", "Entries that took a place, refreshes included; counted from the log's beginning."),
		refreshes: desc("soonbeon_queue_refreshes_total", "Entries of somebody who waited already and was moved back."),
		repeated:  desc("soonbeon_queue_retransmissions_total", "Entries that took no place: the same Idempotency-Key again, or somebody who waits and keeps the place."),
		refused:   desc("soonbeon_queue_late_entries_total", "Entries that took no place since the line had ended."),
		completed: desc("soonbeon_queue_completed_total", "Admissions that the site has completed."),
		ended:     desc("soonbeon_queue_expired_total", "Admissions that ended by their time, without being completed; counted when their place comes free."),
	}
	if reg != nil {
		reg.MustRegister(m)
	}
	return m
}

func (m *Metrics) add(f *Follower) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.followers[f] = true
}

func (m *Metrics) remove(f *Follower) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.followers, f)
}

// Describe is prometheus.Collector's.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.served, m.seq, m.admitted, m.void, m.skipped, m.different, m.waiting, m.active, m.oldest,
		m.rate, m.entries, m.refreshes, m.repeated, m.refused, m.completed, m.ended} {
		ch <- d
	}
}

// Collect is prometheus.Collector's.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	m.mu.Lock()
	all := make([]*Follower, 0, len(m.followers))
	for f := range m.followers {
		all = append(all, f)
	}
	m.mu.Unlock()
	now := time.Now()
	for _, f := range all {
		q, l := string(f.id), f.Live(now)
		gauge := func(d *prometheus.Desc, v float64) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, q)
		}
		count := func(d *prometheus.Desc, n int64) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), q)
		}
		gauge(m.served, float64(l.State.Served))
		gauge(m.seq, float64(l.State.Seq))
		count(m.admitted, l.Counts.Admitted)
		count(m.void, l.Counts.Void)
		count(m.skipped, l.Counts.Skipped)
		count(m.different, l.Counts.Differs)
		gauge(m.active, float64(l.Active))
		gauge(m.rate, l.Rate)
		count(m.completed, l.Counts.Released)
		count(m.ended, l.Counts.Admitted-l.Counts.Released-l.Active)
		if f.line == nil {
			continue // who waits is not known here
		}
		gauge(m.waiting, float64(l.Waiting))
		gauge(m.oldest, float64(l.OldestMs)/1000)
		count(m.entries, l.Counts.Entered)
		count(m.refreshes, l.Counts.Moved)
		count(m.repeated, l.Counts.Repeated)
		count(m.refused, l.Counts.Refused)
	}
}
