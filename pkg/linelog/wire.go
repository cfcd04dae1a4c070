package linelog

import (
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

// Entries are nearly all of a log, so they have a path of their own, an order of magnitude faster than the generated
// code. It knows only the bytes that appendEntered writes; everything else is left to the generated code, so the two
// cannot disagree (FuzzDecode).

const (
	tagEntered = 2<<3 | 2 // Record.entered
	tagVisitor = 1<<3 | 2 // Entered.visitor
	tagKey     = 2<<3 | 2 // Entered.key
)

// appendEntered appends an Entered record as the generated code would write it.
func appendEntered(b []byte, visitor, key string) []byte {
	n := protowire.SizeTag(1) + protowire.SizeBytes(len(visitor))
	if key != "" {
		n += protowire.SizeTag(2) + protowire.SizeBytes(len(key))
	}
	b = append(b, tagEntered)
	b = protowire.AppendVarint(b, uint64(n))
	b = append(b, tagVisitor)
	b = protowire.AppendString(b, visitor)
	if key != "" {
		b = append(b, tagKey)
		b = protowire.AppendString(b, key)
	}
	return b
}

// takeBytes reads what follows a length prefix of one or two bytes at b[i], and where that ends; ok is false for
// anything longer or cut short.
func takeBytes(b string, i int) (from, to int, ok bool) {
	if i >= len(b) {
		return 0, 0, false
	}
	n := int(b[i])
	i++
	if n >= 0x80 {
		if i >= len(b) || b[i] == 0 || b[i] >= 0x80 {
			return 0, 0, false
		}
		n = n&0x7f | int(b[i])<<7
		i++
	}
	if n > len(b)-i {
		return 0, 0, false
	}
	return i, i + n, true
}

// fastEntered reads the canonical form of an Entered record into rec. One allocation: both strings share it.
func fastEntered(b []byte, rec *queue.Record) bool {
	if len(b) < 5 || b[0] != tagEntered {
		return false
	}
	s := string(b)
	i, to, ok := takeBytes(s, 1)
	if !ok || to != len(s) || i >= to || s[i] != tagVisitor {
		return false
	}
	vi, vto, ok := takeBytes(s, i+1)
	if !ok || vi == vto || vto-vi > queue.MaxVisitor || !utf8.ValidString(s[vi:vto]) {
		return false
	}
	key := ""
	if vto != to {
		if s[vto] != tagKey {
			return false
		}
		ki, kto, ok := takeBytes(s, vto+1)
		if !ok || kto != to {
			return false
		}
		key = s[ki:kto]
	}
	rec.Kind, rec.Visitor, rec.Key = queue.Entered, s[vi:vto], key
	return true
}
