package doctor

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/spillway-kv/spillway/cluster/transport/rdma"
	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
)

// packetBytes is the packet of a network that was set up for it.
const packetBytes = 4096

// ports says which ports there are, and which address of each would be used.
func (j *rdmaJudge) ports() {
	const name = "RDMA port"
	for i := range j.r.Ports {
		p := &j.r.Ports[i]
		if !j.meant(p.Name()) && !j.meant(p.Device) {
			continue
		}
		at := slices.IndexFunc(j.chosen, func(c rdma.Choice) bool { return c.Port.Name() == p.Name() })
		used := -1
		if at >= 0 {
			used = j.chosen[at].GID.Index
		}
		found := describePort(p, used)
		iface := "DEVICE"
		if at >= 0 && j.chosen[at].GID.Interface != "" {
			iface = j.chosen[at].GID.Interface
		}
		switch {
		case !p.Active && p.Ethernet:
			j.say(name, Warn, found, "it is not used", "ip -br link; sudo ip link set dev "+iface+" up; look at cable and switch")
		case !p.Active:
			j.say(name, Warn, found, "it is not used: the cable, or no subnet manager runs", "ibstat "+p.Device+"; systemctl status opensm")
		case at < 0:
			j.say(name, Warn, found, "it is not used: none of its addresses fits", "show_gids, or rdma link; give its interface an address, or set pool.rdma_gid_index")
		case p.MTUBytes > 0 && p.MTUBytes < packetBytes && p.Ethernet:
			j.say(name, Warn, found, fmt.Sprintf("packets of %d bytes: %d for each of those that a larger MTU would make, on both sides", p.MTUBytes, packetBytes/p.MTUBytes),
				"sudo ip link set dev "+iface+" mtu 9000; on all nodes and on the switches between them")
		case j.r.Err != nil:
			j.say(name, OK, found, "it would be used, but for what is said above", "")
		default:
			j.say(name, OK, found, "it is used where pool.transport is rdma", "")
		}
	}
	if j.wanted && len(j.chosen) == 0 && j.r.Err == nil {
		j.say(name, Bad, strings.ReplaceAll(j.none.Error(), "\n", "; "), byTCP, "rdma link; ibv_devinfo -v")
	}
}

// describePort tells of a port; used is the index of the address that is chosen, or -1.
func describePort(p *fabric.Port, used int) string {
	kind, mtu, rate := "InfiniBand", "", "unknown rate"
	if p.Ethernet {
		kind = "RoCE"
	}
	if p.MTUBytes > 0 {
		mtu = fmt.Sprintf(", MTU %d", p.MTUBytes)
	}
	if p.RateGbps > 0 {
		rate = fmt.Sprintf("%g Gb/s", p.RateGbps)
	}
	text := fmt.Sprintf("%s: %s, %s, %s%s", p.Name(), kind, p.State, rate, mtu)
	if !p.Ethernet {
		text += fmt.Sprintf(", LID %d", p.LID)
	}
	var gids []string
	for _, g := range p.GIDs {
		one := fmt.Sprintf("%d %s %s", g.Index, g.Type, g.Address.Unmap())
		if g.Interface != "" {
			one += " " + g.Interface
		}
		if g.Index == used {
			one += " (chosen)"
		}
		gids = append(gids, one)
	}
	if len(gids) == 0 {
		return text + "; no address"
	}
	return text + "; addresses " + strings.Join(gids, ", ")
}

// lostFew is how many packets may be lost before it is worth a word, and lostOf of how many
// one more: networks that are set up for RDMA lose none, but each peer that dies costs a few.
const (
	lostFew = 10
	lostOf  = 1e6
)

// loss looks at what the device counts of loss and congestion.
func (j *rdmaJudge) loss(d *RDMADevice) {
	const name = "RDMA loss"
	if len(d.Counters) == 0 || !j.meant(d.Name) {
		return
	}
	var parts []string
	for _, counter := range slices.Sorted(maps.Keys(d.Counters)) {
		if n := d.Counters[counter]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", counter, n))
		}
	}
	found := d.Name + ": nothing lost, no congestion since the device started"
	if len(parts) > 0 {
		found = d.Name + ": since the device started " + strings.Join(parts, ", ")
	}
	lost, unready, marked := d.sum(lossCounters), d.sum(unreadyCounters), d.sum(congestionCounters)
	if d.Packets >= 0 {
		found += fmt.Sprintf(", of %d packets", d.Packets)
	}
	iface := d.Interface
	if iface == "" {
		iface = "DEVICE"
	}
	switch {
	case lost > max(lostFew, d.Packets/lostOf):
		j.say(name, Warn, found, "the network drops packets, or mixes their order: transfers stall and links fail; it wants PFC or ECN for the class that they travel in",
			"ethtool -S "+iface+" | grep -i -e discard -e pause; dcb pfc show dev "+iface+"; and the drops that the switches count (docs/rdma.md, the network)")
	case unready > 0:
		j.say(name, Warn, found, "something on this machine asked for more than it had made ready; spillway never does", "look at other programs that use "+d.Name)
	case marked > 0:
		j.say(name, OK, found, "ECN is in force: senders slow down before packets are lost", "")
	default:
		j.say(name, OK, found, "no packet was lost", "")
	}
}

// class looks at the traffic class of RoCE.
func (j *rdmaJudge) class() {
	if !j.wanted || !slices.ContainsFunc(j.chosen, func(c rdma.Choice) bool { return c.Port.Ethernet }) {
		return
	}
	found := fmt.Sprintf("pool.rdma_traffic_class is %d (DSCP %d)", j.plan.TrafficClass, j.plan.TrafficClass>>2)
	if j.plan.TrafficClass>>2 == 0 {
		j.say("RDMA class", Warn, found, "RoCE travels with everything else: switches drop its packets, too, when they are full, and a lost one is dear",
			"set pool.rdma_traffic_class to the class that your switches keep free of loss: 104 for DSCP 26, which many take (docs/rdma.md, the network)")
		return
	}
	j.say("RDMA class", OK, found, "switches and the other nodes must have the same in mind: PFC or ECN for this class", "")
}

// reversePath looks at several ports in one network.
func (j *rdmaJudge) reversePath() {
	byNetwork := map[netip.Prefix][]fabric.GID{}
	for _, c := range j.chosen {
		for _, n := range c.GID.Networks {
			if n.Contains(c.GID.Address) {
				byNetwork[n] = append(byNetwork[n], c.GID)
			}
		}
	}
	for _, n := range slices.SortedFunc(maps.Keys(byNetwork), netip.Prefix.Compare) {
		var strict, names []string
		for _, g := range byNetwork[n] {
			names = append(names, g.Interface)
			if j.r.ReverseOf[g.Interface] == 1 && g.Address.Unmap().Is4() {
				strict = append(strict, g.Interface)
			}
		}
		if len(names) < 2 {
			continue
		}
		found := fmt.Sprintf("%s are all in %s", strings.Join(names, ", "), shown(n))
		if len(strict) == 0 {
			j.say("RDMA network", OK, found, "each still has its own way in and out as far as the reverse path filter goes; a network for each port is simpler (docs/rdma.md)", "")
			continue
		}
		var remedy []string
		for _, name := range strict {
			remedy = append(remedy, fmt.Sprintf("net.ipv4.conf.%s.rp_filter=2", name))
		}
		j.say("RDMA network", Warn, found+", with a strict reverse path filter on "+strings.Join(strict, ", "), "the kernel drops what comes in by another of them than it would answer by: connections over all but one fail",
			"sudo sysctl -w net.ipv4.conf.all.rp_filter=2 "+strings.Join(remedy, " ")+", or a network for each port")
	}
}

// shown writes a network of 128 bits as people do.
func shown(n netip.Prefix) string {
	if n.Addr().Is4In6() && n.Bits() >= 96 {
		return netip.PrefixFrom(n.Addr().Unmap(), n.Bits()-96).String()
	}
	return n.String()
}
