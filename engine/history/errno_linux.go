package history

import "syscall"

var errNoSpace error = syscall.ENOSPC
