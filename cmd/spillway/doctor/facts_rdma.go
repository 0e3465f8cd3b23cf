package doctor

import (
	"cmp"
	"net/netip"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
)

// RDMAFacts are what a machine has of RDMA.
type RDMAFacts struct {
	Built     bool          // this program can use it
	Library   string        // file of libibverbs, once it is loaded; "" before
	Err       error         // why the library told of no ports; nil: Ports are what it tells
	Ports     []fabric.Port // else as sysfs has them, without MTU and limits
	Devices   []RDMADevice
	ReverseOf map[string]int64 // reverse path filter of the ports' interfaces: 0 off, 1 strict, 2 loose
}

// RDMADevice is what sysfs tells of one.
type RDMADevice struct {
	Name      string // such as mlx5_0
	Board     string
	Firmware  string
	Node      int64            // NUMA node; -1: unknown
	NodeCPUs  string           // of that node
	Verbs     string           // file through which programs use it; "": the kernel offers none
	VerbsErr  error            // that it cannot be opened
	Counters  map[string]int64 // of its ports together, those that tell of loss and congestion
	Packets   int64            // received since the device started, of its ports together; -1: unknown
	Interface string           // network interface of its first port; "": none, or unknown
}

const (
	infiniband = "sys/class/infiniband"
	uverbs     = "sys/class/infiniband_verbs"
)

// gatherRDMA asks the library and reads sysfs.
func (m Machine) gatherRDMA() (r RDMAFacts) {
	r.Built = m.VerbsBuilt
	if m.Verbs != nil {
		r.Ports, r.Err = m.Verbs()
	}
	r.Library = m.libraryOfVerbs()
	for _, name := range m.List(infiniband) {
		r.Devices = append(r.Devices, m.rdmaDevice(name))
	}
	if m.Verbs == nil || r.Err != nil {
		r.Ports = m.rdmaPorts()
	}
	r.ReverseOf = map[string]int64{}
	all := m.Number("proc/sys/net/ipv4/conf/all/rp_filter")
	for i := range r.Ports {
		for _, g := range r.Ports[i].GIDs {
			if g.Interface != "" { // the stricter of all and of its own counts
				r.ReverseOf[g.Interface] = max(all, m.Number("proc/sys/net/ipv4/conf", g.Interface, "rp_filter"))
			}
		}
	}
	return r
}

// libraryOfVerbs is the file of the library that this process has loaded.
func (m Machine) libraryOfVerbs() string {
	for line := range strings.Lines(m.Text("proc/self/maps")) {
		if at := strings.Index(line, "/"); at >= 0 && strings.HasPrefix(path.Base(line[at:]), "libibverbs.so") {
			return strings.TrimSpace(line[at:])
		}
	}
	return ""
}

// lossCounters are those that count what was lost, sent again or refused, by the names
// that drivers (mlx5, irdma, bnxt_re, rxe) have for it.
var lossCounters = []string{"packet_seq_err", "out_of_sequence", "local_ack_timeout_err", "rcvd_seq_err", "out_of_seq_request", "seq_err_naks_rcvd", "to_retransmits", "retry_exceeded_err"}

// unreadyCounters count sends for which no receive was posted, congestionCounters what ECN does.
var (
	unreadyCounters    = []string{"rnr_nak_retry_err", "rcvd_rnr_err", "rnr_naks_rcvd"}
	congestionCounters = []string{"np_ecn_marked_roce_packets", "np_cnp_sent", "rp_cnp_handled", "cnpHandled", "cnpSent"}
)

func (m Machine) rdmaDevice(name string) RDMADevice {
	at := filepath.Join(infiniband, name)
	d := RDMADevice{Name: name, Firmware: m.Text(at, "fw_ver"), Board: cmp.Or(m.Text(at, "hca_type"), m.Text(at, "node_desc")), Node: m.Number(at, "device/numa_node"), Counters: map[string]int64{}, Packets: -1}
	if d.Node >= 0 {
		d.NodeCPUs = m.Text("sys/devices/system/node", "node"+strconv.FormatInt(d.Node, 10), "cpulist")
	}
	for _, file := range m.List(uverbs) {
		if m.Text(uverbs, file, "ibdev") == name {
			d.Verbs = "/dev/infiniband/" + file
			if m.MayUse != nil {
				d.VerbsErr = m.MayUse(d.Verbs)
			}
		}
	}
	for _, number := range m.List(at, "ports") {
		port := filepath.Join(at, "ports", number)
		if d.Interface == "" {
			d.Interface = m.Text(port, "gid_attrs/ndevs/0")
		}
		for _, n := range []int64{m.Number(port, "counters/port_rcv_packets"), m.Number(port, "hw_counters/rcvd_pkts")} {
			if n >= 0 {
				d.Packets = max(d.Packets, 0) + n
			}
		}
		for _, counter := range slices.Concat(lossCounters, unreadyCounters, congestionCounters) {
			if n := m.Number(port, "hw_counters", counter); n >= 0 {
				d.Counters[counter] += n
			}
		}
	}
	return d
}

// sum adds some counters up.
func (d *RDMADevice) sum(names []string) (n int64) {
	for _, name := range names {
		n += d.Counters[name]
	}
	return n
}

// enough stands for limits of which sysfs tells nothing.
const enough = 1 << 15

// rdmaPorts are the ports as sysfs has them: what is known where the library cannot be asked.
func (m Machine) rdmaPorts() (ports []fabric.Port) {
	for _, device := range m.List(infiniband) {
		for _, number := range m.List(infiniband, device, "ports") {
			n, err := strconv.ParseUint(number, 10, 8)
			if err != nil {
				continue
			}
			at := filepath.Join(infiniband, device, "ports", number)
			_, state, _ := strings.Cut(m.Text(at, "state"), ": ")
			p := fabric.Port{Device: device, Number: uint8(n), Ethernet: m.Text(at, "link_layer") == "Ethernet", Active: state == "ACTIVE", State: strings.ToLower(state),
				Node: int(m.Number(infiniband, device, "device/numa_node")), Limits: fabric.Limits{ReceivesMax: enough, SendsMax: enough}}
			rate, _, _ := strings.Cut(m.Text(at, "rate"), " ")
			p.RateGbps, _ = strconv.ParseFloat(rate, 64)
			lid, _ := strconv.ParseUint(m.Text(at, "lid"), 0, 16)
			p.LID = uint16(lid)
			p.GIDs = m.rdmaGIDs(at, p.Ethernet)
			ports = append(ports, p)
		}
	}
	return ports
}

// rdmaGIDs are the addresses of a port that are in use, by their index.
func (m Machine) rdmaGIDs(port string, ethernet bool) (gids []fabric.GID) {
	for _, name := range m.List(port, "gids") {
		index, err := strconv.Atoi(name)
		address, bad := netip.ParseAddr(m.Text(port, "gids", name))
		if err != nil || bad != nil || address.IsUnspecified() {
			continue
		}
		g := fabric.GID{Index: index, Address: address, Interface: m.Text(port, "gid_attrs/ndevs", name)}
		switch kind := m.Text(port, "gid_attrs/types", name); {
		case ethernet && kind == "RoCE v2":
			g.Type = fabric.RoCEv2
		case ethernet:
			g.Type = fabric.RoCEv1
		}
		if m.Networks != nil {
			g.Networks = m.Networks(g.Interface)
		}
		gids = append(gids, g)
	}
	slices.SortFunc(gids, func(a, b fabric.GID) int { return a.Index - b.Index })
	return gids
}
