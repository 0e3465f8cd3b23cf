package doctor

import (
	"fmt"

	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
)

type choice struct {
	Port fabric.Port
	GID  fabric.GID
}

func choose(ports []fabric.Port, names []string, index int) (chosen []choice, left []string) {
	for _, p := range ports {
		if !p.Active {
			left = append(left, fmt.Sprintf("%s is %s", p.Name(), p.State))
			continue
		}
		found := false
		for _, want4 := range []bool{true, false} {
			for _, g := range p.GIDs {
				ok := !p.Ethernet || g.Type == fabric.RoCEv2 && g.Address.Is4In6() == want4
				if index > 0 && p.Ethernet {
					ok = g.Index == index
				}
				if ok && !found {
					found = true
					chosen = append(chosen, choice{p, g})
				}
			}
		}
		if !found {
			left = append(left, p.Name()+" has no address")
		}
	}
	return
}
