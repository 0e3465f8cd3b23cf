package machine

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// tree makes files below a root; a value that starts with "-> " is a link.
func tree(t *testing.T, files map[string]string) System {
	t.Helper()
	root := t.TempDir()
	for path, content := range files {
		full := filepath.Join(root, path)
		err := os.MkdirAll(filepath.Dir(full), 0o700)
		if target, link := strings.CutPrefix(content, "-> "); err == nil && link {
			err = os.Symlink(target, full)
		} else if err == nil {
			err = os.WriteFile(full, []byte(content), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return System{root}
}

const stat = "  100 1 2000 30 400 5 6000 70 0 80 90 0 0 0 0 1 2\n"

func TestHealthAndActivity(t *testing.T) {
	s := tree(t, map[string]string{
		"sys/dev/block/259:0":                                 "-> ../../devices/pci/nvme/nvme0/nvme0n1",
		"sys/dev/block/8:0":                                   "-> ../../devices/ata/sda",
		"sys/dev/block/179:1":                                 "-> ../../devices/mmc/mmcblk0/mmcblk0p1",
		"sys/dev/block/254:0":                                 "-> ../../devices/virtio/vda",
		"sys/devices/pci/nvme/nvme0/nvme0n1/stat":             stat,
		"sys/devices/pci/nvme/nvme0/nvme0n1/device":           "-> ..",
		"sys/devices/pci/nvme/nvme0/hwmon1/temp1_input":       "41500\n",
		"sys/devices/ata/sda/stat":                            "1 2 3\n",
		"sys/devices/ata/sda/device/hwmon/hwmon3/temp1_input": "29400\n",
		"sys/devices/mmc/mmcblk0/mmcblk0p1/partition":         "1\n",
		"sys/devices/mmc/mmcblk0/device/life_time":            "0x01 0x0b\n",
		"sys/devices/virtio/vda/queue/scheduler":              "[none]\n",
	})
	for device, want := range map[string]struct {
		name   string
		health Health
		busy   int64 // -1: does not tell
	}{
		"259:0": {"nvme0n1", Health{42, -1, -1}, 80},
		"8:0":   {"sda", Health{29, -1, -1}, -1},
		"179:1": {"mmcblk0", Health{-1, 110, -1}, -1},
		"254:0": {"vda", Health{-1, -1, -1}, -1},
	} {
		drives := s.DrivesBelow(device)
		if len(drives) != 1 || drives[0].Name != want.name {
			t.Errorf("%s: drives %+v, want %s", device, drives, want.name)
			continue
		}
		if got := s.Health(drives[0]); got != want.health {
			t.Errorf("%s: %+v, want %+v", want.name, got, want.health)
		}
		activity, ok := s.Activity(drives[0])
		if ok != (want.busy >= 0) || ok && activity.BusyTicks != want.busy {
			t.Errorf("%s: %+v %t", want.name, activity, ok)
		}
	}
	if drives := s.DrivesBelow("1:1"); drives != nil {
		t.Errorf("drives of nothing: %+v", drives)
	}
}

func TestActivitySince(t *testing.T) {
	s := tree(t, map[string]string{"sys/dev/block/1:1/stat": stat})
	after, ok := s.Activity(s.DrivesBelow("1:1")[0])
	want := Activity{100, 1, 2000, 30, 400, 5, 6000, 70, 80, 90}
	if !ok || after != want {
		t.Fatalf("%+v, want %+v", after, want)
	}
	// Each field is taken from itself: all differences are 1.
	before := after
	fields := reflect.ValueOf(&before).Elem()
	for i := range fields.NumField() {
		fields.Field(i).SetInt(fields.Field(i).Int() - 1)
	}
	if got := after.Since(before); got != (Activity{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}) {
		t.Errorf("%+v", got)
	}
}

func TestHealthLog(t *testing.T) {
	log := make([]byte, healthLogBytes)
	binary.LittleEndian.PutUint16(log[1:], 273+37)
	log[5] = 103
	binary.LittleEndian.PutUint64(log[48:], 2_000_000)
	if got, want := readHealthLog(log), (Health{37, 103, 1_024_000_000_000}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	log[56] = 1
	if got := readHealthLog(log); got.WrittenBytes != -1 {
		t.Errorf("more than fits: %+v", got)
	}
}

func TestFactsOf(t *testing.T) {
	s := tree(t, map[string]string{
		"proc/sys/kernel/osrelease": "6.12.0\n",
		"proc/cpuinfo":              "processor\t: 0\nmodel name\t: ACME: 9000\nprocessor\t: 1\nmodel name\t: other\n",
		"proc/meminfo":              "MemTotal:       24684084 kB\nMemFree: 1 kB\n",
		"proc/self/mountinfo":       "22 1 8:2 / / rw shared:1 - ext4 /dev/sda2 rw,discard\n",
	})
	f := s.FactsOf(filepath.Join(t.TempDir(), "not", "there"))
	if f.Kernel != "6.12.0" || f.CPU != "ACME: 9000" || f.MemoryBytes != 24684084<<10 || f.Mount.Source != "/dev/sda2" || !f.Mount.Has("discard") || f.Mount.Has("sync") {
		t.Errorf("%+v", f)
	}
	empty := System{t.TempDir()}
	if f := empty.FactsOf("/"); f.Kernel != "" || f.MemoryBytes != -1 || f.Drives != nil {
		t.Errorf("of nothing: %+v", f)
	}
	if f := This().FactsOf("."); f.Kernel == "" || f.Cores == 0 || f.MemoryBytes <= 0 || f.Mount.Type == "" {
		t.Errorf("here: %+v", f)
	}
}
