package doctor

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
}

// mountOf finds the mount that path lies on: of those whose mount point is
// above it, the longest, and of equals the last.
func (m Machine) mountOf(path string) Mount {
	var best Mount
	for line := range strings.Lines(m.text("proc/self/mountinfo")) {
		left, right, ok := strings.Cut(line, " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !ok || len(l) < 6 || len(r) < 3 {
			continue
		}
		point := unescape(l[4])
		if !above(point, path) || len(point) < len(best.Point) {
			continue
		}
		best = Mount{Device: l[2], Point: point, Type: r[0], Source: unescape(r[1]),
			Options: append(strings.Split(l[5], ","), strings.Split(r[2], ",")...)}
	}
	return best
}

func above(point, path string) bool {
	return point == path || strings.HasPrefix(path, strings.TrimSuffix(point, "/")+"/")
}

var octal = regexp.MustCompile(`\\[0-7]{3}`)

// unescape undoes the octal escapes of mountinfo.
func unescape(text string) string {
	return octal.ReplaceAllStringFunc(text, func(code string) string {
		n, _ := strconv.ParseUint(code[1:], 8, 8)
		return string([]byte{byte(n)})
	})
}

// drivesOf finds the drives below a mount, through partitions and mapped
// devices.
func (m Machine) drivesOf(mount Mount) []Drive {
	dir := m.real("sys/dev/block", mount.Device)
	if dir == "" && strings.HasPrefix(mount.Source, "/dev/") {
		dir = m.real("sys/class/block", filepath.Base(mount.Source))
	}
	if dir == "" {
		return nil
	}
	var drives []Drive
	for _, disk := range m.disks(dir, 0) {
		drives = append(drives, m.drive(disk))
	}
	return drives
}

// real resolves a link of sysfs; the result is below the root and starts
// without it. It is "" for nothing.
func (m Machine) real(path ...string) string {
	root, err := filepath.EvalSymlinks(m.Root)
	if err != nil {
		return ""
	}
	full, err := filepath.EvalSymlinks(filepath.Join(append([]string{root}, path...)...))
	if err != nil {
		return ""
	}
	rel, err := filepath.Rel(root, full)
	if err != nil || strings.HasPrefix(rel, "..") {
		return ""
	}
	return rel
}

// stackMax bounds how many mapped devices lie on each other.
const stackMax = 8

// disks goes down from a block device to whole disks.
func (m Machine) disks(dir string, depth int) []string {
	if m.exists(filepath.Join(dir, "partition")) {
		dir = filepath.Dir(dir)
	}
	slaves := m.list(dir, "slaves")
	if len(slaves) == 0 || depth == stackMax {
		return []string{dir}
	}
	var all []string
	for _, name := range slaves {
		below := m.real(dir, "slaves", name)
		if below == "" {
			continue
		}
		for _, disk := range m.disks(below, depth+1) {
			if !slices.Contains(all, disk) {
				all = append(all, disk)
			}
		}
	}
	return all
}

func (m Machine) drive(dir string) Drive {
	queue := filepath.Join(dir, "queue")
	scheduler := m.text(queue, "scheduler")
	d := Drive{Name: filepath.Base(dir), Model: m.text(dir, "device/model"), Rotational: m.number(queue, "rotational"),
		WriteCache: m.text(queue, "write_cache"), Scheduler: chosen(scheduler), Requests: m.number(queue, "nr_requests"),
		Schedulers: strings.Fields(strings.NewReplacer("[", "", "]", "").Replace(scheduler)),
		Logical:    m.number(queue, "logical_block_size"), Physical: m.number(queue, "physical_block_size"), Node: m.node(dir)}
	if d.Node >= 0 {
		d.NodeCPUs = m.text("sys/devices/system/node", "node"+strconv.FormatInt(d.Node, 10), "cpulist")
	}
	return d
}

var nvmeName = regexp.MustCompile(`^(nvme\d+)n\d+$`)

// node is the NUMA node of the nearest device above a disk that has one.
func (m Machine) node(dir string) int64 {
	for up := dir; up != "." && up != "/"; up = filepath.Dir(up) {
		if n := m.number(up, "numa_node"); n >= 0 {
			return n
		}
	}
	// A disk of a multipath subsystem is no child of its controller.
	if match := nvmeName.FindStringSubmatch(filepath.Base(dir)); match != nil {
		for _, path := range []string{"numa_node", "device/numa_node"} {
			if n := m.number("sys/class/nvme", match[1], path); n >= 0 {
				return n
			}
		}
	}
	return -1
}

// cpuSet reads a list such as 0-3,8.
func cpuSet(list string) map[int]bool {
	set := map[int]bool{}
	for part := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(part, "-")
		a, err := strconv.Atoi(first)
		b := a
		if isRange && err == nil {
			b, err = strconv.Atoi(last)
		}
		const cpusMax = 1 << 16
		if err != nil || a < 0 || b > cpusMax {
			continue
		}
		for cpu := a; cpu <= b; cpu++ {
			set[cpu] = true
		}
	}
	return set
}
