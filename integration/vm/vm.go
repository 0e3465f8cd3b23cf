// Package vm runs programs in a virtual machine that has what this machine may lack: RDMA
// devices (soft-RoCE, real verbs over real kernel code) and NVMe drives that can be made to
// fail. It needs qemu, neither root nor KVM, and boots in seconds. Speeds inside mean nothing.
//
// To run the tests of any package in it, flags of the test behind its path:
//
//	go run ./integration/vm/run ./cluster/transport/rdma/verbs -test.run Fabric -test.v
//
// A machine is made of three things: Image, the file system with the programs to run, Boot,
// and Machine.Run or Start, for any number of processes. The host orders and hears over a
// serial port of its own (package wire), so nothing that the kernel prints can be taken for
// a result; the first process there is integration/vm/init.
//
// What is in every machine: two processors; two RDMA devices, rxe1 at 10.9.0.1 and rxe2 at
// 10.9.0.2, on the network interfaces v1 and v2 (setup.sh; after a link was taken down and up,
// run "/setup.sh links"); the drives of Options as /dev/nvme0n1 and so on; /tmp in memory;
// busybox, ip, rdma; modules of ext4 and xfs; in the environment SPILLWAY_VM=1.
//
// What the host needs (Debian): qemu-system-x86, busybox-static, iproute2, libibverbs-dev,
// ibverbs-providers, e2fsprogs, a kernel (.ci/vm fetches one) and Go. Missing names what is
// not there, and tests skip then.
//
// SPILLWAY_VM_KERNEL names a folder with boot/ and lib/modules/; SPILLWAY_VM_ACCEL=kvm uses
// KVM, where it is known to work.
package vm

import (
	"errors"
	"fmt"
	"os"
)

// Errors of machines.
var (
	// ErrMissing says what a host lacks.
	ErrMissing = errors.New("missing for a virtual machine")
	// ErrGone: the machine has ended, or never came up; the text has the end of its console.
	ErrGone = errors.New("the virtual machine is gone")
	// ErrHung: it has ended because a processor was spinning in the machine's kernel. The
	// error is ErrGone, too, and the console tells where.
	ErrHung = errors.New("its kernel hung")
)

// Missing says what this host lacks for a machine, or for programs with the tag verbs; nil if
// nothing is missing.
func Missing() error {
	for _, name := range []string{"qemu-system-x86_64", "busybox", "ip", "rdma", "ldd", "mke2fs"} {
		if _, err := lookPath(name); err != nil {
			return err
		}
	}
	if _, err := verbsDriver(); err != nil {
		return err
	}
	if _, err := os.Stat("/usr/include/infiniband/verbs.h"); err != nil {
		return fmt.Errorf("%w: the headers of libibverbs (Debian: libibverbs-dev)", ErrMissing)
	}
	_, err := findKernel()
	return err
}
