package linelog_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/soonbeon/soonbeon/pkg/linelog"
	"github.com/soonbeon/soonbeon/pkg/linelog/linelogtest"
	"github.com/soonbeon/soonbeon/pkg/queue"
)

func TestOpenTellsEveryMistake(t *testing.T) {
	_, err := linelog.Open(linelog.Config{Replication: -1, MaxBuffered: -1, MaxBufferedBytes: 1, AppendTimeout: time.Millisecond, Retention: time.Second}, nil, nil)
	if err == nil {
		t.Fatal("taken")
	}
	for _, word := range []string{"brokers", "replication", "retention", "max buffered is", "max buffered bytes", "append timeout"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("nothing about %s in: %v", word, err)
		}
	}
	for name, cfg := range map[string]linelog.Config{
		"mechanism":   {Brokers: []string{"b:1"}, SASL: &linelog.SASLConfig{Mechanism: "GSSAPI", User: "u", Password: "secret"}},
		"no password": {Brokers: []string{"b:1"}, SASL: &linelog.SASLConfig{Mechanism: "PLAIN", User: "u"}},
		"no CA":       {Brokers: []string{"b:1"}, TLS: &linelog.TLSConfig{CAFile: "/nonexistent"}},
		"half a cert": {Brokers: []string{"b:1"}, TLS: &linelog.TLSConfig{CertFile: "x"}},
	} {
		if _, err := linelog.Open(cfg, nil, nil); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestEnsureQueueOnce(t *testing.T) {
	b := linelogtest.Start(t)
	log := b.Log(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	ids, made := map[string]int{}, 0
	for range 8 {
		wg.Go(func() {
			id, created, err := log.EnsureQueue(soon(t), main)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			ids[id]++
			if created {
				made++
			}
		})
	}
	wg.Wait()
	if len(ids) != 1 || made != 1 {
		t.Errorf("made %d times, with ids %v", made, ids)
	}
	first, next, err := log.Bounds(soon(t), main)
	if err != nil || first != 1 || next != 1 {
		t.Errorf("an empty log has bounds %d, %d, %v; want 1, 1", first, next, err)
	}
	if _, _, err := log.EnsureQueue(soon(t), "Not an id"); err == nil {
		t.Error("a bad id was taken")
	}
}

func TestUnfitTopicIsRefused(t *testing.T) {
	b := linelogtest.Start(t)
	log := b.Log(t)
	b.Create(main, 3, map[string]string{"cleanup.policy": "compact"})
	_, _, err := log.EnsureQueue(soon(t), main)
	var setting *linelog.SettingError
	if !errors.As(err, &setting) || setting.Fix == "" {
		t.Fatalf("got %v, want what is wrong and what to do", err)
	}
	for _, word := range []string{"partitions is 3, wanted 1", "message.timestamp.type is CreateTime, wanted LogAppendTime", "cleanup.policy is compact, wanted delete"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("not told: %s, in: %v", word, err)
		}
	}
}

func TestCheckProductionTellsEveryMistake(t *testing.T) {
	b := linelogtest.Start(t)
	log := b.Log(t)
	ensure(t, log, main)
	err := log.CheckProduction(soon(t), main, "nowhere")
	for _, word := range []string{"replication factor is 1, wanted 3 or more", "min.insync.replicas is 1, wanted 2 or more", "queue nowhere"} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("not told: %s, in: %v", word, err)
		}
	}
	if !errors.Is(err, linelog.ErrNoQueue) {
		t.Errorf("%v is not ErrNoQueue", err)
	}
}

func TestTopicNames(t *testing.T) {
	if got := linelog.TopicOf(queue.ID("main")); got != "soonbeon.queue.main" {
		t.Errorf("the stored name is soonbeon.queue.main, not %s", got)
	}
}
