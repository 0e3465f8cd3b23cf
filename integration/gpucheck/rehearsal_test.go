package gpucheck

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/spillway-kv/spillway/fio/budget"
	"github.com/spillway-kv/spillway/tiering/gpu/gputest"
)

// TestRehearsal is the whole check in its true sizes, with stand-ins in the place of the
// driver's libraries: all but what needs a GPU's arithmetic. It takes 6 GiB of memory,
// 4 GiB of the drive and a minute or two.
func TestRehearsal(t *testing.T) {
	if os.Getenv("SPILLWAY_LONG") == "" || real {
		t.Skip("SPILLWAY_LONG=1 rehearses the whole check")
	}
	cuda, nvml := gputest.CUDA(t, "MIB=4096", "PAGEABLE=1"), gputest.NVML(t)
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), realGPU+"=1", "LD_LIBRARY_PATH="+filepath.Dir(cuda)+":"+filepath.Dir(nvml),
		outDir+"="+dir, storeDir+"="+t.TempDir(), spillwayPath+"="+spillway(t))
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	text, readErr := os.ReadFile(filepath.Join(dir, summary))
	if readErr != nil {
		t.Fatal(err, readErr)
	}
	var r checkReport
	if err := json.Unmarshal(text, &r); err != nil || len(r.Steps) != len(steps) {
		t.Fatalf("%v: %s", err, text)
	}
	for _, s := range r.Steps {
		// The speeds that are asked of a link of PCIe 5 are not those of a stand-in.
		if s.State != passed && s.Name != "copies" || len(s.Findings) == 0 && s.Name != "driver" {
			t.Errorf("%+v", s)
		}
	}
	kept, err := budget.ReadStored(filepath.Join(dir, measurement))
	if err != nil || kept.GPU != "Stub H200 0" || len(kept.Points) != 2 {
		t.Errorf("%+v, %v", kept, err)
	}
}
