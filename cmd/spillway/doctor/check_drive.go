package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spillway-kv/spillway/engine/machine"
)

func drives(f *Facts, _ Plan) []Check {
	if f.DirErr != nil {
		return nil
	}
	if len(f.Drives) == 0 {
		return one("drive", Warn, fmt.Sprintf("none found for %s", f.Mount.Source), "its queue could not be looked at: a network, memory or hidden device", "lsblk")
	}
	var all []Check
	for _, d := range f.Drives {
		all = append(all, driveCheck(d), scheduler(d))
	}
	return all
}

// requestsMin is the least queue worth having: a store's default depth.
const requestsMin = 32

func driveCheck(d machine.Drive) Check {
	model := d.Model
	if model == "" {
		model = "unknown model"
	}
	cache := d.WriteCache
	if cache == "" {
		cache = "unknown"
	}
	c := Check{Name: "drive", Level: OK, Found: fmt.Sprintf("%s, %s; blocks of %s bytes (physical %s), write cache %s, at most %s requests queued, NUMA node %s",
		d.Name, model, known(d.Logical), known(d.Physical), cache, known(d.Requests), known(d.Node))}
	const physicalMax = 4096
	switch {
	case d.Rotational == 1:
		c.Level = Warn
		c.Means = "it turns: a read takes milliseconds, which is rarely faster than computing the block again; choose another drive"
		if c.Remedy = "lsblk -d -o NAME,ROTA,TRAN,MODEL"; !strings.HasPrefix(d.Name, "sd") {
			c.Means = "it says that it turns, which such drives do not: the kernel orders requests for a disk that is none"
			c.Remedy = fmt.Sprintf("echo 0 | sudo tee /sys/block/%s/queue/rotational", d.Name)
		}
	case d.Physical > physicalMax:
		c.Level, c.Remedy = Warn, "lsblk -o NAME,PHY-SEC,LOG-SEC"
		c.Means = fmt.Sprintf("its blocks are larger than %d bytes: the log's writes make it read and write the rest", physicalMax)
	case d.Requests >= 0 && d.Requests < requestsMin:
		c.Level, c.Means = Warn, fmt.Sprintf("fewer than the %d transfers that a store runs at once", requestsMin)
		c.Remedy = fmt.Sprintf("echo 128 | sudo tee /sys/block/%s/queue/nr_requests", d.Name)
	case d.WriteCache == "write back":
		c.Means = "a durable put waits for the drive to empty its cache; a drive with power-loss protection does so at once"
	default:
		c.Means = "as a store wants it"
	}
	return c
}

// known writes a number that sysfs may not have told.
func known(n int64) string {
	if n < 0 {
		return "unknown"
	}
	return fmt.Sprint(n)
}

func scheduler(d machine.Drive) Check {
	c := Check{Name: "scheduler", Level: OK, Found: fmt.Sprintf("%s: %s (of %s)", d.Name, d.Scheduler, strings.Join(d.Schedulers, " ")),
		Means: "requests go to the drive in the order in which they come, or nearly so"}
	switch {
	case d.Scheduler == "":
		c.Found = d.Name + ": none to choose"
		return c
	case d.Scheduler == "none" || d.Scheduler == "mq-deadline":
		return c
	case d.Rotational == 1:
		c.Means = "it sorts requests, as a turning disk wants them"
		return c
	}
	best := "none"
	if !slices.Contains(d.Schedulers, best) {
		best = "mq-deadline"
	}
	c.Level, c.Means = Warn, "it weighs and holds requests back: fairer between programs, later for reads with a deadline"
	c.Remedy = fmt.Sprintf("echo %s | sudo tee /sys/block/%s/queue/scheduler", best, d.Name)
	return c
}

// affinity compares the CPUs of this process with those near the drive.
func affinity(f *Facts, _ Plan) []Check {
	const name = "NUMA"
	if len(f.Nodes) < 2 {
		return one(name, OK, fmt.Sprintf("CPUs %s, one node", f.CPUs), "all memory is equally near", "")
	}
	mine := cpuSet(f.CPUs)
	var all []Check
	for _, d := range f.Drives {
		if d.Node < 0 || d.NodeCPUs == "" {
			continue
		}
		near, far := 0, 0
		theirs := cpuSet(d.NodeCPUs)
		for cpu := range mine {
			if theirs[cpu] {
				near++
			} else {
				far++
			}
		}
		found := fmt.Sprintf("%s is at node %d (CPUs %s), this process may use CPUs %s", d.Name, d.Node, d.NodeCPUs, f.CPUs)
		bind := fmt.Sprintf("numactl --cpunodebind=%[1]d --membind=%[1]d spillway ...", d.Node)
		switch {
		case near == 0:
			all = append(all, Check{name, Warn, found, "every byte crosses between the sockets", bind})
		case far > 0:
			all = append(all, Check{name, Warn, found, "some threads and some memory lie at another node than the drive", bind})
		default:
			all = append(all, Check{name, OK, found, "threads are near the drive", ""})
		}
	}
	if len(all) == 0 {
		return one(name, OK, fmt.Sprintf("%d nodes, CPUs %s", len(f.Nodes), f.CPUs), "the drive's node is not known, so nothing can be bound to it", "")
	}
	return all
}
