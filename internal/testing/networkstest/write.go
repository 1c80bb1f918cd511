// Package networkstest writes files in the format of MaxMind for tests.
package networkstest

import (
	"encoding/binary"
	"maps"
	"net/netip"
	"slices"
)

// Record is the data of a network: texts, numbers (uint32) and records by their names.
type Record map[string]any

// File returns a file with the records of networks, which must not overlap.
func File(kind string, networks map[string]Record) []byte {
	tree, data := [][2]int{{}}, []byte(nil)
	for _, network := range slices.Sorted(maps.Keys(networks)) {
		at := -16 - len(data) // in place of a record, until the number of nodes is known
		data = appendValue(data, networks[network])
		tree = insert(tree, netip.MustParsePrefix(network), at)
	}
	var file []byte
	for _, node := range tree {
		for _, record := range node {
			switch {
			case record == 0:
				record = len(tree)
			case record < 0:
				record = len(tree) - record
			}
			file = append(file, byte(record>>16), byte(record>>8), byte(record))
		}
	}
	file = append(append(file, make([]byte, 16)...), data...)
	return appendValue(append(file, "\xab\xcd\xefMaxMind.com"...), Record{
		"binary_format_major_version": uint16(2), "binary_format_minor_version": uint16(0), "build_epoch": uint64(1),
		"database_type": kind, "description": Record{}, "ip_version": uint16(6), "languages": []any{},
		"node_count": uint32(len(tree)), "record_size": uint16(24),
	})
}

// insert adds a network to a tree: node 0 is its root, and no record leads there.
func insert(tree [][2]int, network netip.Prefix, at int) [][2]int {
	addr, bits := network.Addr().As16(), network.Bits()
	if network.Addr().Is4() {
		bits += 96
		addr[10], addr[11] = 0, 0 // IPv4 lies at ::/96
	}
	node := 0
	for i := range bits {
		side := int(addr[i/8]>>(7-i%8)) & 1
		if i == bits-1 {
			tree[node][side] = at
			break
		}
		if tree[node][side] == 0 {
			tree = append(tree, [2]int{})
			tree[node][side] = len(tree) - 1
		}
		node = tree[node][side]
	}
	return tree
}

// appendValue appends a value as the format has it: its type, its size, and its bytes.
func appendValue(to []byte, value any) []byte {
	number := func(kind int, bytes []byte) []byte { return append(appendType(to, kind, len(bytes)), bytes...) }
	switch v := value.(type) {
	case string:
		return append(appendType(to, 2, len(v)), v...)
	case uint16:
		return number(5, binary.BigEndian.AppendUint16(nil, v))
	case uint32:
		return number(6, binary.BigEndian.AppendUint32(nil, v))
	case uint64:
		return number(9, binary.BigEndian.AppendUint64(nil, v))
	case []any:
		return appendType(to, 11, len(v))
	default:
		record := value.(Record)
		to = appendType(to, 7, len(record))
		for _, name := range slices.Sorted(maps.Keys(record)) {
			to = appendValue(appendValue(to, name), record[name])
		}
		return to
	}
}

func appendType(to []byte, kind, size int) []byte {
	if kind > 7 {
		return append(to, byte(size), byte(kind-7))
	}
	return append(to, byte(kind<<5|size))
}
