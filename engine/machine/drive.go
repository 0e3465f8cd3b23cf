package machine

import (
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Drive is what sysfs tells of one drive. Numbers are -1 where it does not.
type Drive struct {
	Name       string
	Model      string
	Rotational int64
	WriteCache string   // "write back" or "write through"
	Scheduler  string   // the chosen one
	Schedulers []string // to choose from
	Requests   int64    // nr_requests
	Logical    int64    // block size in bytes
	Physical   int64
	Node       int64  // NUMA node
	NodeCPUs   string // of that node
	dir        string // in sysfs
}

// DrivesOf finds the drives below a mount, through partitions and mapped
// devices.
func (s System) DrivesOf(mount Mount) []Drive {
	dir := s.real("sys/dev/block", mount.Device)
	if dir == "" && strings.HasPrefix(mount.Source, "/dev/") {
		dir = s.real("sys/class/block", filepath.Base(mount.Source))
	}
	return s.drives(dir)
}

// DrivesBelow finds the drives below a block device, given as major:minor.
func (s System) DrivesBelow(device string) []Drive { return s.drives(s.real("sys/dev/block", device)) }

func (s System) drives(dir string) (all []Drive) {
	if dir == "" {
		return nil
	}
	for _, disk := range s.disks(dir, 0) {
		all = append(all, s.drive(disk))
	}
	return all
}

// stackMax bounds how many mapped devices lie on each other.
const stackMax = 8

// disks goes down from a block device to whole disks.
func (s System) disks(dir string, depth int) []string {
	if s.Exists(filepath.Join(dir, "partition")) {
		dir = filepath.Dir(dir)
	}
	slaves := s.List(dir, "slaves")
	if len(slaves) == 0 || depth == stackMax {
		return []string{dir}
	}
	var all []string
	for _, name := range slaves {
		below := s.real(dir, "slaves", name)
		if below == "" {
			continue
		}
		for _, disk := range s.disks(below, depth+1) {
			if !slices.Contains(all, disk) {
				all = append(all, disk)
			}
		}
	}
	return all
}

func (s System) drive(dir string) Drive {
	queue := filepath.Join(dir, "queue")
	scheduler := s.Text(queue, "scheduler")
	d := Drive{dir: dir, Name: filepath.Base(dir), Model: s.Text(dir, "device/model"), Rotational: s.Number(queue, "rotational"),
		WriteCache: s.Text(queue, "write_cache"), Scheduler: Chosen(scheduler), Requests: s.Number(queue, "nr_requests"),
		Schedulers: strings.Fields(strings.NewReplacer("[", "", "]", "").Replace(scheduler)),
		Logical:    s.Number(queue, "logical_block_size"), Physical: s.Number(queue, "physical_block_size"), Node: s.node(dir)}
	if d.Node >= 0 {
		d.NodeCPUs = s.Text("sys/devices/system/node", "node"+strconv.FormatInt(d.Node, 10), "cpulist")
	}
	return d
}

var nvmeName = regexp.MustCompile(`^(nvme\d+)n\d+$`)

// node is the NUMA node of the nearest device above a disk that has one.
func (s System) node(dir string) int64 {
	for up := dir; up != "." && up != "/"; up = filepath.Dir(up) {
		if n := s.Number(up, "numa_node"); n >= 0 {
			return n
		}
	}
	// A disk of a multipath subsystem is no child of its controller.
	if match := nvmeName.FindStringSubmatch(filepath.Base(dir)); match != nil {
		for _, path := range []string{"numa_node", "device/numa_node"} {
			if n := s.Number("sys/class/nvme", match[1], path); n >= 0 {
				return n
			}
		}
	}
	return -1
}
