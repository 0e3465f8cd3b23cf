package job

import (
	"errors"
	"strings"
)

var engineWords = []word[target]{
	{"raw", target{engine: EngineRaw}},
	{"io_uring", target{EngineRaw, BackendURing, true}},
	{"psync", target{EngineRaw, BackendPsync, true}},
	{"store", target{engine: EngineStore}},
	{"pool", target{engine: EnginePool}},
	{"null", target{engine: EngineNull}},
}

var backendWords = []word[Backend]{{"auto", BackendAuto}, {"io_uring", BackendURing}, {"psync", BackendPsync}}

var targetOptions = []Option{
	{Name: "ioengine", Group: "Target", Form: listOf(engineWords), Default: "raw",
		Help:    "What the job drives: raw is files or a block device through the device layer; io_uring and psync are raw with that way chosen; store is a store in this process; pool is a running daemon; null does nothing and shows what the harness costs.",
		Differs: "fio's default is psync.",
		set: func(d *draft, text string) (err error) {
			d.target, err = oneOf(text, engineWords)
			if err != nil && otherEngines[text] {
				return errors.New(text + " is an engine of fio that is not supported; for files and devices use raw, io_uring or psync")
			}
			return err
		}},
	{Name: "backend", Group: "Target", Ours: true, Form: listOf(backendWords), Default: "auto",
		Help: "How raw and store reach the medium: auto takes io_uring, and workers with pread and pwrite where that is refused.",
		set:  wordTo(func(d *draft) *Backend { return &d.Backend }, backendWords)},
	{Name: "direct", Group: "Target", Form: "0|1", Default: "1",
		Help:    "Go past the page cache; 0 measures memory as much as the medium, and the report says so.",
		Differs: "fio's default is 0.",
		set:     flagTo(func(d *draft) *bool { return &d.Direct })},
	{Name: "buffered", Group: "Target", Form: "0|1",
		Help: "The opposite of direct.",
		set: func(d *draft, text string) error {
			on, err := switched(text)
			d.Direct = !on
			return err
		}},
	{Name: "filename", Group: "Target", Form: "PATH[:PATH...]",
		Help:    "Files or block devices, separated by colons; a colon in a name is written \\:. Without it each worker has the file JOBNAME.WORKER.0 in directory.",
		Differs: "Missing parent directories are never made.",
		set: func(d *draft, text string) error {
			names := splitPaths(text)
			for _, name := range names {
				if name == "" || name == "-" {
					return errors.New("an empty name, or -, is no file")
				}
			}
			d.Filenames = names
			return nil
		}},
	{Name: "directory", Group: "Target", Form: "PATH",
		Help:    "Where files are that filename does not name with a whole path; for ioengine=store the directory of the store.",
		Differs: "One directory, not a list; raw needs it or filename, store needs it.",
		set: func(d *draft, text string) error {
			if paths := splitPaths(text); len(paths) > 1 {
				return errors.New(`one directory, not a list; write \: for a colon in a name`)
			}
			d.Directory = splitPaths(text)[0]
			return nil
		}},
	{Name: "size", Group: "Target", Form: "SIZE|N%", Default: "all of the target",
		Help: "Length of the range that the job works on, its files together; it ends when so much has been transferred.",
		set:  into(func(d *draft) *Amount { return &d.Size }, amount)},
	{Name: "io_size", Aliases: []string{"io_limit"}, Group: "Target", Form: "SIZE|N%", Default: "size",
		Help: "How much to transfer before the job ends, where that is not size.",
		set:  into(func(d *draft) *Amount { return &d.IOSize }, amount)},
	{Name: "offset", Aliases: []string{"fileoffset"}, Group: "Target", Form: "SIZE|N%", Default: "0",
		Help: "Where in the target the range begins; a percentage is rounded to whole blocks.",
		set:  into(func(d *draft) *Amount { return &d.Offset }, amount)},
	{Name: "numjobs", Group: "Target", Form: "N", Default: "1",
		Help:    "How many equal workers the job has; iodepth, rate and size are each worker's own.",
		Differs: "0 is refused.",
		set:     countTo(func(d *draft) *int { return &d.NumJobs }, 1, 4096)},
	{Name: "description", Group: "Target", Form: "TEXT",
		Help: "Words for people, kept in the report.",
		set:  textTo(func(d *draft) *string { return &d.Description })},
}

// otherEngines are fio's engines that have no counterpart.
var otherEngines = func() map[string]bool {
	names := map[string]bool{}
	for _, name := range strings.Fields("sync vsync pvsync pvsync2 libaio io_uring_cmd posixaio windowsaio rbd http mmap splice netsplice sg net " +
		"cpuio rdma e4defrag falloc ftruncate gfapi gfapi_async libhdfs mtd pmemblk dev-dax filecreate filestat filedelete dircreate dirdelete dirstat external " +
		"libpmem ime_psync ime_psyncv ime_aio exec xnvme libblkio libcufile dfs nfs nbd libiscsi solarisaio binject") {
		names[name] = true
	}
	return names
}()

// splitPaths cuts at colons that no backslash protects.
func splitPaths(text string) []string {
	var paths []string
	var path strings.Builder
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\\' && i+1 < len(text) && text[i+1] == ':':
			path.WriteByte(':')
			i++
		case text[i] == ':':
			paths = append(paths, path.String())
			path.Reset()
		default:
			path.WriteByte(text[i])
		}
	}
	return append(paths, path.String())
}
