package embedded

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The broker deletes a topic's files one by one, and only then writes a topics.json without the topic. Killed in between, it
// leaves what looks like a damaged log. So what is about to be deleted is written down before (deleting.json, the topics' ids),
// and a deletion that was begun is completed at the next start. The file stays where it is after a deletion that went well: ids are
// not used twice, and the next deletion writes it anew.

const topicsFile = "topics.json"

func deletingFile(data string) string { return filepath.Join(data, "deleting.json") }

// topic is what topics.json has of one, as far as it is looked at.
type topic struct {
	Name       string `json:"name"`
	ID         string `json:"id"` // in base64
	Partitions int    `json:"partitions"`
}

// folders are where its records are.
func (t topic) folders(data string) (paths []string) {
	for p := range t.Partitions {
		paths = append(paths, filepath.Join(data, "partitions", partition(t.Name, p)))
	}
	return paths
}

// readTopics returns the topics in topics.json.
func readTopics(data string) ([]topic, error) {
	var file struct {
		Topics []topic `json:"topics"`
	}
	path := filepath.Join(data, topicsFile)
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(b, &file); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return file.Topics, nil
}

// noteDeletions makes the broker write down what it is about to delete. Requests come one at a time, each after the one before
// was carried out. A request that can't be written down is not carried out: its connection ends.
func noteDeletions(cluster *kfake.Cluster, data string) {
	cluster.ControlKey(int16(kmsg.DeleteTopics), func(r kmsg.Request) (kmsg.Response, error, bool) { //nolint:revive // kfake's order
		err := noteDeletion(data, r.(*kmsg.DeleteTopicsRequest))
		return nil, err, err != nil
	})
}

func noteDeletion(data string, r *kmsg.DeleteTopicsRequest) error {
	topics, err := readTopics(data)
	if err != nil {
		return fmt.Errorf("note what is to be deleted: %w", err)
	}
	names := slices.Clone(r.TopicNames)
	var ids []string
	for _, t := range r.Topics {
		if t.Topic != nil {
			names = append(names, *t.Topic)
		}
		ids = append(ids, base64.StdEncoding.EncodeToString(t.TopicID[:]))
	}
	var deleting []string
	for _, t := range topics {
		if slices.Contains(names, t.Name) || slices.Contains(ids, t.ID) {
			deleting = append(deleting, t.ID)
		}
	}
	return writeJSON(deletingFile(data), deleting)
}

// completeDeletions removes what is left of topics that were being deleted when the process was killed.
func completeDeletions(data string) error {
	b, err := os.ReadFile(deletingFile(data))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("complete a deletion: %w", err)
	}
	var deleting []string
	if err := json.Unmarshal(b, &deleting); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrDamaged, deletingFile(data), err)
	}
	topics, err := readTopics(data)
	if errors.Is(err, os.ErrNotExist) {
		return nil // check says what is missing
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	begun := false
	for _, t := range topics {
		if !slices.Contains(deleting, t.ID) {
			continue
		}
		begun = true
		for _, dir := range t.folders(data) {
			if err := os.RemoveAll(dir); err != nil {
				return fmt.Errorf("complete the deletion of topic %s: %w", t.Name, err)
			}
		}
	}
	if begun {
		return forgetTopics(data, deleting)
	}
	return nil
}

// forgetTopics writes topics.json without some, and everything else in it as it is.
func forgetTopics(data string, ids []string) error {
	path := filepath.Join(data, topicsFile)
	b, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("complete a deletion: %w", err)
	}
	var file map[string]json.RawMessage
	var topics []json.RawMessage
	if err := errors.Join(json.Unmarshal(b, &file), json.Unmarshal(file["topics"], &topics)); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrDamaged, path, err)
	}
	topics = slices.DeleteFunc(topics, func(raw json.RawMessage) bool {
		var t topic
		return json.Unmarshal(raw, &t) == nil && slices.Contains(ids, t.ID)
	})
	if file["topics"], err = json.Marshal(topics); err != nil {
		return err
	}
	return writeJSON(path, file)
}

// writeJSON puts v in a file, whole or not at all, and on disk.
func writeJSON(path string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	next := path + ".new"
	f, err := os.OpenFile(next, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = f.Write(b)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.Rename(next, path); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return errors.Join(dir.Sync(), dir.Close())
}
