package run

import "syscall"

// damageErrno is what fio's JSON has for a failed verification.
const damageErrno = int(syscall.EILSEQ)
