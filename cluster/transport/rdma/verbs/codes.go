package verbs

import (
	"strconv"

	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
)

// codes are the statuses of a completion in the library's numbers.
var codes = [...]struct {
	name   string
	result fabric.Result
}{
	{"SUCCESS", fabric.OK},
	{"LOC_LEN_ERR", fabric.LocalFault},
	{"LOC_QP_OP_ERR", fabric.LocalFault},
	{"LOC_EEC_OP_ERR", fabric.LocalFault},
	{"LOC_PROT_ERR", fabric.LocalFault},
	{"WR_FLUSH_ERR", fabric.Flushed},
	{"MW_BIND_ERR", fabric.LocalFault},
	{"BAD_RESP_ERR", fabric.OtherFault},
	{"LOC_ACCESS_ERR", fabric.LocalFault},
	{"REM_INV_REQ_ERR", fabric.RemoteMalformed},
	{"REM_ACCESS_ERR", fabric.RemoteDenied},
	{"REM_OP_ERR", fabric.OtherFault},
	{"RETRY_EXC_ERR", fabric.NoAnswer},
	{"RNR_RETRY_EXC_ERR", fabric.NoReceive},
	{"LOC_RDD_VIOL_ERR", fabric.LocalFault},
	{"REM_INV_RD_REQ_ERR", fabric.RemoteMalformed},
	{"REM_ABORT_ERR", fabric.OtherFault},
	{"INV_EECN_ERR", fabric.OtherFault},
	{"INV_EEC_STATE_ERR", fabric.OtherFault},
	{"FATAL_ERR", fabric.OtherFault},
	{"RESP_TIMEOUT_ERR", fabric.NoAnswer},
	{"GENERAL_ERR", fabric.OtherFault},
}

// CodeName is the name of a completion's Code, as manuals of RDMA devices have it.
func CodeName(code int) string {
	if code < 0 || code >= len(codes) {
		return strconv.Itoa(code)
	}
	return codes[code].name
}
