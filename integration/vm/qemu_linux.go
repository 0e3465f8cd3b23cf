package vm

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spillway-kv/spillway/integration/vm/wire"
)

// A kernel that spins for twice watchdog_thresh seconds ends its machine, and says hungText
// and where it was.
const (
	hungOptions = "softlockup_panic=1 watchdog_thresh=15"
	hungText    = "softlockup: hung tasks"
)

// arguments of qemu.
func arguments(dir string, image *Image, o Options) ([]string, error) {
	accel := []string{"-accel", "tcg,thread=multi", "-cpu", "max"}
	if os.Getenv("SPILLWAY_VM_ACCEL") == "kvm" {
		accel = []string{"-accel", "kvm", "-cpu", "host"}
	}
	memory, processors := cmp.Or(o.MemoryMiB, 2048), cmp.Or(o.Processors, 2)
	line := "console=ttyS0 quiet panic=-1 mitigations=off " + hungOptions
	if o.Role != 0 {
		line += fmt.Sprint(" role=", o.Role)
	}
	args := append(accel, "-M", "q35", "-m", fmt.Sprint(memory), "-smp", fmt.Sprint(processors),
		"-nodefaults", "-no-user-config", "-display", "none", "-serial", "stdio", "-no-reboot",
		"-kernel", image.kernel.image, "-initrd", image.path, "-append", line,
		"-chardev", "socket,id=port,path="+filepath.Join(dir, "port"),
		"-device", "virtio-serial-pci", "-device", "virtserialport,chardev=port,name="+wire.PortName)
	for i, d := range o.Drives {
		file, err := d.file(dir, i)
		if err != nil {
			return nil, err
		}
		args = append(args, "-drive", fmt.Sprintf("file=%s,format=raw,if=none,id=drive%d,cache=unsafe", file, i),
			"-device", fmt.Sprintf("nvme,serial=drive%d,drive=drive%d", i, i))
	}
	if o.Network == "" {
		args = append(args, "-nic", "none")
	} else {
		args = append(args, "-netdev", "socket,id=net,"+o.Network,
			"-device", fmt.Sprintf("virtio-net-pci,netdev=net,mac=52:54:00:00:00:%02x,host_mtu=9000", o.Role))
	}
	return append(args, o.Arguments...), nil
}

// file is the drive's file as qemu names it, below the layer that injects errors if any.
func (d Drive) file(dir string, i int) (string, error) {
	if strings.ContainsAny(d.Path, ",:") {
		return "", fmt.Errorf("drive %s: qemu takes no path with a comma or a colon", d.Path)
	}
	if d.FailSector == 0 {
		return d.Path, nil
	}
	rules := filepath.Join(dir, fmt.Sprintf("errors%d", i))
	text := fmt.Sprintf("[inject-error]\nevent = \"read_aio\"\niotype = \"read\"\nerrno = \"5\"\nsector = \"%d\"\nonce = \"off\"\n", d.FailSector)
	if err := os.WriteFile(rules, []byte(text), 0o600); err != nil {
		return "", err
	}
	return "blkdebug:" + rules + ":" + d.Path, nil
}

// diesWithParent keeps a machine from outliving a test that was killed.
func diesWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// Freeze stops the machine between two instructions; nothing in it can notice.
func (m *Machine) Freeze() error { return m.qemu.Process.Signal(syscall.SIGSTOP) }

// Thaw lets it go on.
func (m *Machine) Thaw() error { return m.qemu.Process.Signal(syscall.SIGCONT) }
