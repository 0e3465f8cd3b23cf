package config

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spillway-kv/spillway/tiering/memory"
)

// Values of memory.numa that are no numbers.
const (
	NUMAAuto = "auto"
	NUMAAny  = "any"
)

// Tier are the options of the memory tier; ok is false if there is to be none. Of
// NUMAAuto the nodes are the caller's to find.
func (m *Memory) Tier() (o memory.Options, ok bool) {
	if m.DRAMBytes == 0 || m.Mode == string(memory.Off) {
		return o, false
	}
	nodes, _ := m.Nodes()
	return memory.Options{Bytes: int64(m.DRAMBytes), Mode: memory.Mode(m.Mode), Nodes: nodes, Verify: m.Verify}, true
}

// Nodes are the numbers of memory.numa; none for NUMAAuto and NUMAAny.
func (m *Memory) Nodes() (nodes []int, err error) {
	if m.NUMA == NUMAAuto || m.NUMA == NUMAAny {
		return nil, nil
	}
	for part := range strings.SplitSeq(m.NUMA, ",") {
		n, err := strconv.ParseUint(strings.TrimSpace(part), 10, 10)
		if err != nil {
			return nil, &Error{Text: fmt.Sprintf("memory.numa is %q, want auto, any, or the numbers of nodes such as 0,1", m.NUMA)}
		}
		nodes = append(nodes, int(n))
	}
	return nodes, nil
}

func (m *Memory) check() error {
	if m.Mode != string(memory.Exclusive) && m.Mode != string(memory.Inclusive) && m.Mode != string(memory.Off) {
		return &Error{Text: fmt.Sprintf("memory.mode is %q, want exclusive, inclusive or off", m.Mode)}
	}
	if _, err := m.Nodes(); err != nil {
		return err
	}
	if o, ok := m.Tier(); ok {
		if err := o.Validate(); err != nil {
			return &Error{Text: "memory.dram_bytes: " + err.Error()}
		}
	}
	return nil
}
