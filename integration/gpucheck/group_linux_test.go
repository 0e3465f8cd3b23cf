package gpucheck

import (
	"os/exec"
	"syscall"
	"time"
)

// inGroup makes cmd and all that it starts end together when its context does.
func inGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second // a process may hang in the driver
}
