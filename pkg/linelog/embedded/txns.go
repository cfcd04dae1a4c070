package embedded

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// partitionTxns is what a partition's batches say of transactions. The broker ends a transaction by a mark in each of its
// partitions, one after another, so a kill can come in between; and of one that has no mark it would believe, after the next
// commit of the same producer and one more start, that it was committed too. So every transaction gets its mark here.
type partitionTxns struct {
	dir           string
	segment, next int64 // the last segment, and the offset to be written next
	leaderEpoch   [4]byte
	open          map[int64]int16 // by producer id: the epoch of a transaction without a mark
	ended         map[int64]mark  // by producer id: the last mark
}

type mark struct {
	epoch  int16
	commit bool
}

func newPartitionTxns(dir string) *partitionTxns {
	return &partitionTxns{dir: dir, open: make(map[int64]int16), ended: make(map[int64]mark)}
}

const (
	attrTxn     = 0x10
	attrControl = 0x20
)

func attributes(b []byte) uint16 { return binary.BigEndian.Uint16(b[21:]) }

// isTxnData says of a batch that it counts only with the commit of its transaction.
func isTxnData(b []byte) bool { return attributes(b)&(attrTxn|attrControl) == attrTxn }

// see takes a checked batch in.
func (t *partitionTxns) see(b []byte) {
	copy(t.leaderEpoch[:], b[12:])
	pid, epoch := int64(binary.BigEndian.Uint64(b[43:])), int16(binary.BigEndian.Uint16(b[51:]))
	switch {
	case isTxnData(b):
		t.open[pid] = epoch
	case attributes(b)&attrControl != 0:
		delete(t.open, pid)
		// One record: its length, attributes and two deltas of one byte each, the key's length, and in the key a version and
		// the type, 1 for a commit. Anything else is what the broker takes for a rollback.
		t.ended[pid] = mark{epoch: epoch, commit: len(b) >= batchHeader+9 && binary.BigEndian.Uint16(b[batchHeader+7:]) == 1}
	}
}

// endTxns writes the marks that are missing: a commit where the same transaction was committed in another partition, else a
// rollback. A producer's epoch grows with each of its transactions, so it tells them apart.
func endTxns(parts []*partitionTxns) error {
	for _, t := range parts {
		for pid, epoch := range t.open {
			commit := slices.ContainsFunc(parts, func(o *partitionTxns) bool { return o.ended[pid] == mark{epoch, true} })
			if err := t.end(pid, mark{epoch, commit}); err != nil {
				return fmt.Errorf("end a transaction in %s: %w", t.dir, err)
			}
		}
	}
	return nil
}

// end appends a mark to the last segment, as the broker would.
func (t *partitionTxns) end(pid int64, m mark) error {
	now := uint64(time.Now().UnixMilli())
	b := binary.BigEndian.AppendUint64(nil, uint64(t.next))
	b = append(b, 0, 0, 0, 0)          // the length, set below
	b = append(b, t.leaderEpoch[:]...) //
	b = append(b, 2, 0, 0, 0, 0)       // format 2, and the checksum, set below
	b = binary.BigEndian.AppendUint16(b, attrTxn|attrControl)
	b = append(b, 0, 0, 0, 0) // the last offset's delta
	b = binary.BigEndian.AppendUint64(b, now)
	b = binary.BigEndian.AppendUint64(b, now)
	b = binary.BigEndian.AppendUint64(b, uint64(pid))
	b = binary.BigEndian.AppendUint16(b, uint16(m.epoch))
	b = append(b, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1) // no sequence number; one record
	kind := byte(0)
	if m.commit {
		kind = 1
	}
	// Lengths are zigzag: 16 bytes follow; a key of 4, a value of 6 (a version and the coordinator's epoch), no headers.
	b = append(b, 0x20, 0, 0, 0, 0x08, 0, 0, 0, kind, 0x0c, 0, 0, 0, 0, 0, 0, 0)
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
	castagnoli := crc32.MakeTable(crc32.Castagnoli)
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], castagnoli))

	idx := make([]byte, indexEntry) // of version 1, its checksum, the leader's epoch, a time, and whether it needs a mark
	idx[0] = 1
	binary.LittleEndian.PutUint32(idx[2:], binary.BigEndian.Uint32(t.leaderEpoch[:]))
	binary.LittleEndian.PutUint64(idx[6:], now)
	idx[1] = byte(crc32.Checksum(idx[2:], castagnoli))

	path := filepath.Join(t.dir, strconv.FormatInt(t.segment, 10))
	if err := appendSynced(path+".dat", b); err != nil {
		return err
	}
	t.next++
	return appendSynced(path+".idx", idx)
}

func appendSynced(path string, b []byte) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Sync(), f.Close())
}
