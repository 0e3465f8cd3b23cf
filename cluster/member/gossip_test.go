package member

import (
	"testing"
)

func TestMembersFindEachOther(t *testing.T) {
	t.Parallel()
	all := pool(t, 3, calm)
	for i, g := range all {
		g.Announce(Active, 1000, int64(100*(i+1)))
	}
	for _, g := range all {
		until(t, g.o.Name+" knows of everybody's state and room", func() bool {
			for _, m := range g.Members() {
				if m.State != Active || m.CapacityBytes != 1000 || m.FreeBytes != int64(m.Name[1]-'0')*100 || m.Suspect || m.Self != (m.Name == g.o.Name) {
					return false
				}
			}
			return true
		})
		until(t, g.o.Name+" is established", func() bool { return g.Status().Established })
		until(t, g.o.Name+" has tested all legs, and all work", func() bool {
			for _, m := range g.Status().Members {
				for _, l := range m.Legs {
					if !l.Tested || l.Error != "" {
						return false
					}
				}
			}
			return true
		})
	}
}
