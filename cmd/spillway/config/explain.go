package config

import (
	"fmt"
	"slices"
	"time"

	"github.com/spillway-kv/spillway/cluster/node"
	"github.com/spillway-kv/spillway/fio/units"
	"github.com/spillway-kv/spillway/tiering/admit"
)

// Explain says in words what the settings come to whose numbers do not tell by themselves:
// which blocks are not written, and how fast and how long the drives may be. A line each;
// none where everything is admitted.
func (f *File) Explain() (lines []string) {
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	if second := f.bySecond(); second != "" {
		say("admission: in %s a block is stored when it is put for the second time", second)
	}
	if s := f.Gate.setup(); s != nil {
		say("gate: by the roofline of %s TP %d on %s, a token of a prompt of %d takes %v, and one of %d %v; a prefix so long is worth loading from %.3g and %.3g GB/s on",
			s.Model.Name, s.Tensor, s.GPU.Name, promptTokens, s.Prefill(promptTokens).PerToken.Round(10*time.Nanosecond), promptTokens*8,
			s.Prefill(promptTokens*8).PerToken.Round(10*time.Nanosecond), s.BreakEven(promptTokens)/1e9, s.BreakEven(promptTokens*8)/1e9)
	}
	if o, ok := f.Memory.Tier(); ok && o.Bytes > machineBytes() {
		say("memory: dram_bytes, %s, is more than this machine's %s: the daemon would not start here", units.Bytes(o.Bytes), units.Bytes(machineBytes()))
	}
	if p := &f.Pool; p.ID != "" {
		name, _ := p.NodeName() // checked
		say("pool %s: this node is %s, its data port on %s, its gossip on %s, its state in %s", p.ID, name, p.Bind, p.GossipAddress(), f.PoolDir())
		if len(p.Seeds) == 0 {
			say("pool %s: no seeds: this node begins a pool, and others name it as theirs", p.ID)
		}
		if p.TLS() {
			say("pool %s: %s", p.ID, p.explainCertificate())
		}
		if who := p.Insecure(); who != "" {
			say("pool %s: %s", p.ID, who)
		}
		if text := p.explainTransport(); text != "" {
			say("pool %s: %s", p.ID, text)
		}
	}
	for i := range f.Stores {
		s := &f.Stores[i]
		for _, l := range f.Admission.budgets(int64(s.Capacity)) {
			if l.BytesPerSecond == 0 {
				continue
			}
			say("store %s: %s a second over time (%s a day), %s at once", s.Dir, units.Bytes(int64(l.BytesPerSecond)),
				units.Bytes(int64(l.BytesPerSecond*86400)), units.Bytes(int64(l.BytesPerSecond*l.Burst.Seconds())))
			if s.Endurance > 0 {
				say("store %s: written so, it lasts %.0f days", s.Dir, float64(s.Endurance)/(l.BytesPerSecond*(24*time.Hour).Seconds()))
			}
		}
		if f.Admission.DrivesPerDay > 0 && s.Capacity == 0 {
			say("store %s: %v drive writes per day of the capacity that it has", s.Dir, f.Admission.DrivesPerDay)
		}
	}
	return lines
}

// machineBytes is the memory of this machine.
func machineBytes() int64 { return node.Options{}.WithDefaults().RegionBytesMax }

// budgets are the limits of a store with this capacity; 0: it is not known here.
func (a *Admission) budgets(capacity int64) []admit.Limit {
	return []admit.Limit{{BytesPerSecond: float64(a.WriteRate), Burst: a.WriteBurst.Duration}, admit.Wears(a.DrivesPerDay, capacity, a.WearBurst.Duration)}
}

// bySecond says whose blocks are stored at second sight; empty: nobody's.
func (f *File) bySecond() string {
	var second, all []string
	for i := range f.Namespaces {
		switch n := &f.Namespaces[i]; n.Admit {
		case node.AdmitSecond:
			second = append(second, n.Name)
		case node.AdmitAll:
			all = append(all, n.Name)
		}
	}
	slices.Sort(second)
	slices.Sort(all)
	switch {
	case f.Admission.Admit == node.AdmitSecond && len(all) > 0:
		return fmt.Sprintf("all namespaces but %q", all)
	case f.Admission.Admit == node.AdmitSecond:
		return "all namespaces"
	case len(second) > 0:
		return fmt.Sprintf("namespaces %q", second)
	}
	return ""
}
