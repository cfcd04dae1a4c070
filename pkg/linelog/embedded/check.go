package embedded

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// The broker's files, as far as they are looked at: topics.json; partitions/<topic>-<n>/<first offset>.dat with record
// batches in Kafka's format, one after another; and a .idx beside it with indexEntry bytes for each batch, written after
// the batch and synced with it before the acknowledgement. So a batch that has an index entry was acknowledged, or might
// have been; one that has none and is cut short was not.
const (
	indexEntry  = 15
	batchHeader = 61 // of an empty batch
	maxBatch    = 1 << 30
)

// check refuses a data folder whose files were altered, cuts off an unfinished last write, and ends transactions that were
// under way. It reads every segment once, as the broker does again after it.
func check(data string) error {
	parts, err := os.ReadDir(filepath.Join(data, "partitions"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("check the log's files: %w", err)
	}
	known, err := knownPartitions(data)
	if err != nil {
		return err
	}
	// Without this file the broker would take the folder for a new one, and write an empty topics.json.
	meta := filepath.Join(data, "meta.json")
	if _, err := os.Stat(meta); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	var txns []*partitionTxns
	for _, p := range parts {
		dir := filepath.Join(data, "partitions", p.Name())
		if !p.IsDir() {
			continue
		}
		segments, err := segmentsIn(dir)
		if err != nil {
			return err
		}
		if len(segments) > 0 && !known[p.Name()] {
			return fmt.Errorf("%w: %s holds records, and topics.json doesn't know the topic", ErrDamaged, dir)
		}
		next, t := int64(0), newPartitionTxns(dir)
		for i, base := range segments {
			if base != next {
				return fmt.Errorf("%w: %s: a segment begins at offset %d, wanted %d", ErrDamaged, dir, base, next)
			}
			if next, err = checkSegment(dir, base, i == len(segments)-1, t); err != nil {
				return err
			}
			t.segment, t.next = base, next
		}
		txns = append(txns, t)
	}
	return endTxns(txns)
}

func knownPartitions(data string) (map[string]bool, error) {
	topics, err := readTopics(data)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	known := make(map[string]bool)
	for _, t := range topics {
		for p := range t.Partitions {
			known[partition(t.Name, p)] = true
		}
	}
	return known, nil
}

// partition is the name of the folder of a partition.
func partition(topic string, n int) string { return fmt.Sprintf("%s-%d", url.PathEscape(topic), n) }

func segmentsIn(dir string) ([]int64, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("check the log's files: %w", err)
	}
	var bases []int64
	for _, f := range files {
		if name, ok := strings.CutSuffix(f.Name(), ".idx"); ok {
			if _, err := os.Stat(filepath.Join(dir, name+".dat")); err != nil {
				return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
			}
		}
		name, ok := strings.CutSuffix(f.Name(), ".dat")
		if !ok {
			continue
		}
		base, err := strconv.ParseInt(name, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%w: %s is not named after an offset", ErrDamaged, filepath.Join(dir, f.Name()))
		}
		bases = append(bases, base)
	}
	slices.SortFunc(bases, cmp.Compare[int64])
	return bases, nil
}

// checkSegment returns the offset that follows the segment.
func checkSegment(dir string, base int64, last bool, t *partitionTxns) (next int64, err error) {
	path := filepath.Join(dir, strconv.FormatInt(base, 10)+".dat")
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return 0, fmt.Errorf("check the log's files: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, fmt.Errorf("check the log's files: %w", err)
	}
	indexed := int64(0)
	idx, err := os.Stat(strings.TrimSuffix(path, ".dat") + ".idx")
	switch {
	case err == nil:
		indexed = idx.Size() / indexEntry
	case !errors.Is(err, os.ErrNotExist):
		return 0, fmt.Errorf("check the log's files: %w", err)
	}
	r := bufio.NewReaderSize(f, 1<<20)
	next, pos, batches := base, int64(0), int64(0)
	var buf []byte
	for pos < info.Size() {
		size, err := batchSize(r, info.Size()-pos)
		if errors.Is(err, io.ErrUnexpectedEOF) {
			// Cut short. Nobody was told of it if it has no index entry and nothing follows.
			if last && batches >= indexed {
				break
			}
			return 0, damaged(path, pos, "a record batch is cut short, and was acknowledged")
		}
		if err != nil {
			return 0, damaged(path, pos, err.Error())
		}
		buf = slices.Grow(buf[:0], int(size))[:size]
		if _, err := io.ReadFull(r, buf); err != nil {
			return 0, fmt.Errorf("check %s: %w", path, err)
		}
		n, err := checkBatch(buf, next)
		if err != nil {
			return 0, damaged(path, pos, err.Error())
		}
		if last && batches >= indexed && pos+size == info.Size() && isTxnData(buf) {
			// Nobody was told of it either. The broker would take a batch without its index entry for one that was committed.
			break
		}
		t.see(buf)
		next, pos, batches = next+n, pos+size, batches+1
	}
	if batches < indexed {
		return 0, damaged(path, pos, fmt.Sprintf("%d record batches were written, and %d are here", indexed, batches))
	}
	if pos < info.Size() {
		if err := errors.Join(f.Truncate(pos), f.Sync()); err != nil {
			return 0, fmt.Errorf("cut off the unfinished write in %s: %w", path, err)
		}
	}
	// The entry of the last batch may be missing or torn where the process was killed between the two writes. Nothing is
	// lost with it, but the next batch's would stand in its place.
	if err := mendIndex(strings.TrimSuffix(path, ".dat")+".idx", batches); err != nil {
		return 0, err
	}
	return next, nil
}

// batchSize peeks at the length of the next batch, header included.
func batchSize(r *bufio.Reader, left int64) (int64, error) {
	head, err := r.Peek(12)
	if err != nil {
		return 0, io.ErrUnexpectedEOF
	}
	size := 12 + int64(binary.BigEndian.Uint32(head[8:12]))
	if size < batchHeader || size > maxBatch {
		return 0, fmt.Errorf("a record batch of %d bytes cannot be", size)
	}
	if size > left {
		return 0, io.ErrUnexpectedEOF
	}
	return size, nil
}

// checkBatch returns how many offsets the batch takes. The checksum covers what follows it; the fields before it are
// compared with what they must be.
func checkBatch(b []byte, next int64) (int64, error) {
	if got := int64(binary.BigEndian.Uint64(b)); got != next {
		return 0, fmt.Errorf("a record batch has offset %d, wanted %d", got, next)
	}
	if b[16] != 2 {
		return 0, fmt.Errorf("a record batch has format %d, wanted 2", b[16])
	}
	if crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)) != binary.BigEndian.Uint32(b[17:]) {
		return 0, errors.New("a record batch's checksum is wrong")
	}
	n := int64(binary.BigEndian.Uint32(b[23:])) + 1
	if count := int64(binary.BigEndian.Uint32(b[57:])); n != count {
		return 0, fmt.Errorf("a record batch spans %d offsets and holds %d records", n, count)
	}
	return n, nil
}

// mendIndex fills the index up to batches entries of zeros, which the broker reads as "not known".
func mendIndex(path string, batches int64) error {
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("check the log's files: %w", err)
	}
	have := info.Size() / indexEntry
	if info.Size() == batches*indexEntry {
		return nil
	}
	if err := os.Truncate(path, have*indexEntry); err != nil {
		return fmt.Errorf("mend %s: %w", path, err)
	}
	if err := os.Truncate(path, batches*indexEntry); err != nil { // grows it with zeros
		return fmt.Errorf("mend %s: %w", path, err)
	}
	return nil
}

func damaged(path string, pos int64, what string) error {
	return fmt.Errorf("%w: %s at byte %d: %s; restore the folder from a copy, or start anew with an empty one", ErrDamaged, path, pos, what)
}

// escapeGlob makes a path match itself in filepath.Glob.
func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}
