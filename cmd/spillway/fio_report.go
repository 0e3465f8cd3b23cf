package main

import (
	"bytes"
	"os"

	"github.com/spillway-kv/spillway/fio/page"
)

// writeReport writes the page that --report asks for, whatever became of the run.
func (f *fioRun) writeReport() error {
	var b bytes.Buffer
	if err := page.Write(&b, f.result.Full(f.result.NowNS())); err != nil {
		return err
	}
	return os.WriteFile(f.c.Report, b.Bytes(), 0o644)
}
