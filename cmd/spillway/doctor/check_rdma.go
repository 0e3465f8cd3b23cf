package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/spillway-kv/spillway/cluster/transport/rdma"
	"github.com/spillway-kv/spillway/fio/units"
)

// RDMAPlan is what a configuration wants of RDMA.
type RDMAPlan struct {
	Refused       string // why blocks do not come by RDMA whatever the machine has; empty: they may
	Ports         []string
	GIDIndex      int
	TrafficClass  int
	RegisterBytes int64 // memory that is registered with each port, clients' not counted
}

const byTCP = "blocks of a pool's other nodes come by tcp"

// examineRDMA judges what there is of RDMA. Without a plan to use it nothing of it is amiss: the
// facts are said, and all is well.
func examineRDMA(f *Facts, plan Plan) []Check {
	j := rdmaJudge{f: f, r: &f.RDMA, wanted: plan.RDMA != nil}
	if plan.RDMA != nil {
		j.plan = *plan.RDMA
	}
	if j.plan.Refused != "" { // what else is amiss is said with it
		j.say("RDMA security", Bad, j.plan.Refused, byTCP, "rdma_plain = true, or transport = \"tcp\", in [pool] (docs/rdma.md, security)")
	}
	j.chosen, _, j.none = rdma.Choose(f.RDMA.Ports, j.plan.Ports, j.plan.GIDIndex)
	if !j.library() {
		return j.all
	}
	for i := range j.r.Devices {
		j.device(&j.r.Devices[i])
	}
	j.ports()
	j.locked()
	for i := range j.r.Devices {
		j.loss(&j.r.Devices[i])
	}
	j.class()
	j.reversePath()
	return j.all
}

// rdmaJudge collects the findings about RDMA.
type rdmaJudge struct {
	f      *Facts
	r      *RDMAFacts
	plan   RDMAPlan
	wanted bool
	chosen []rdma.Choice // what the transport would use
	none   error         // why nothing
	all    []Check
}

// say adds a finding. What nobody means to use cannot be amiss.
func (j *rdmaJudge) say(name string, level Level, found, means, remedy string) {
	if !j.wanted || level == OK {
		level, remedy = OK, ""
	}
	j.all = append(j.all, Check{name, level, found, means, remedy})
}

// library says whether there is anything to look at.
func (j *rdmaJudge) library() bool {
	r, names := j.r, []string{}
	for i := range r.Devices {
		names = append(names, r.Devices[i].Name)
	}
	devices := "no RDMA device"
	if len(names) > 0 {
		devices = "RDMA devices " + strings.Join(names, ", ")
	}
	const name = "RDMA"
	switch {
	case !r.Built:
		j.say(name, Bad, devices+"; this program is built without verbs", byTCP, "make build TAGS=verbs, or use a build whose spillway version says that verbs are in")
		return len(names) > 0
	case r.Err != nil && len(names) > 0 && r.Library == "":
		j.say(name, Bad, fmt.Sprintf("%s; %v", devices, r.Err), byTCP, "sudo apt-get install ibverbs-providers; elsewhere libibverbs and the driver's library of the device")
		return true
	case r.Err != nil && len(names) > 0:
		j.say(name, Bad, fmt.Sprintf("%s; %v", devices, r.Err), byTCP, "ibv_devinfo; dmesg | grep -i -e mlx -e rdma -e infiniband")
		return true
	case r.Err != nil: // it says that there is none
		j.say(name, Bad, r.Err.Error(), byTCP, "lspci | grep -i -e infiniband -e ethernet; sudo modprobe ib_uverbs; rdma link; a container needs --device /dev/infiniband and --network host")
		return false
	}
	found := fmt.Sprintf("%s of %s", units.Count(int64(len(r.Ports)), "port"), units.Count(int64(len(names)), "device"))
	if r.Library != "" {
		found += ", through " + r.Library
	}
	j.say(name, OK, found, "blocks can come from other nodes by RDMA where pool.transport says so and they have it, too", "")
	return true
}

func (j *rdmaJudge) device(d *RDMADevice) {
	const name = "RDMA device"
	if !j.meant(d.Name) {
		return
	}
	board, firmware, at := d.Board, d.Firmware, d.Verbs
	for _, text := range []*string{&board, &firmware, &at} {
		if *text == "" {
			*text = "unknown"
		}
	}
	found := fmt.Sprintf("%s: %s, firmware %s, NUMA node %s, %s", d.Name, board, firmware, known(d.Node), at)
	switch {
	case d.Verbs == "":
		j.say(name, Bad, fmt.Sprintf("%s: the kernel offers it to no program", d.Name), "nothing can be sent or received through it", "sudo modprobe ib_uverbs")
	case errors.Is(d.VerbsErr, fs.ErrNotExist):
		j.say(name, Bad, fmt.Sprintf("%s: %v", d.Name, d.VerbsErr), "it is there, and this process is not given it: a container, or a service with PrivateDevices",
			"docker run --device "+d.Verbs+" ...; in a service DeviceAllow="+d.Verbs+" rw")
	case d.VerbsErr != nil:
		j.say(name, Bad, fmt.Sprintf("%s: %v", d.Name, d.VerbsErr), "this user may not use it", "ls -l "+d.Verbs+"; rdma-core's udev rules let everybody, or sudo chmod 666 "+d.Verbs)
	case len(j.f.Nodes) > 1 && d.NodeCPUs != "" && !overlap(cpuSet(j.f.CPUs), cpuSet(d.NodeCPUs)):
		j.say(name, Warn, fmt.Sprintf("%s; this process may use CPUs %s", found, j.f.CPUs), "every byte that comes through it crosses between the sockets",
			fmt.Sprintf("numactl --cpunodebind=%[1]d --membind=%[1]d spillway ...", d.Node))
	default:
		j.say(name, OK, found, "this process may use it", "")
	}
}

// meant says whether the plan wants a device, or any of its ports.
func (j *rdmaJudge) meant(device string) bool {
	return len(j.plan.Ports) == 0 || slices.ContainsFunc(j.plan.Ports, func(name string) bool { return name == device || strings.HasPrefix(name, device+":") })
}

func overlap(a, b map[int]bool) bool {
	for cpu := range a {
		if b[cpu] {
			return true
		}
	}
	return false
}

// locked compares the limit with what would be registered: each port counts for itself.
func (j *rdmaJudge) locked() {
	const name = "RDMA memory"
	if !j.wanted || len(j.chosen) == 0 {
		return
	}
	need := uint64(j.plan.RegisterBytes) * uint64(len(j.chosen))
	found := fmt.Sprintf("this process may lock %s; %s are registered with %s, %s together, beside the memory of clients", limit(j.f.LockedSoft),
		units.Bytes(j.plan.RegisterBytes), units.Count(int64(len(j.chosen)), "port"), units.Bytes(int64(need)))
	switch {
	case j.f.MayLock:
		j.say(name, OK, found+"; it has CAP_IPC_LOCK", "this process may register all of it; a daemon without that capability has a limit of its own (/proc/PID/limits)", "")
	case j.f.LockedSoft == unlimited:
		j.say(name, OK, found, "all of it can be registered", "")
	case j.f.LockedSoft < need:
		j.say(name, Bad, found, byTCP+": the kernel refuses to register so much; a service needs LimitMEMLOCK=infinity, a container --ulimit memlock=-1", raiseLocked)
	default:
		j.say(name, Warn, found, "clients' memory above the limit is not registered: their blocks land elsewhere and are copied; a service needs LimitMEMLOCK=infinity, a container --ulimit memlock=-1", raiseLocked)
	}
}
