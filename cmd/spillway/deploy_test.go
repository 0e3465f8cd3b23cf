package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spillway-kv/spillway/cmd/spillway/config"
)

const deployDir = "../../deploy"

func manifest(t *testing.T, name string) []map[string]any {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(deployDir, name))
	if err != nil {
		t.Fatal(err)
	}
	return readYAML(t, string(text))
}

// TestKubernetes: the manifest is one, and what it says in several places fits together:
// its configuration is accepted, ports, names, probes and mounts are those of the daemon.
func TestKubernetes(t *testing.T) {
	byKind := map[string]map[string]any{}
	for _, d := range manifest(t, "kubernetes/spillway.yaml") {
		byKind[at(t, d, "kind").(string)] = d
	}
	set, service := byKind["StatefulSet"], byKind["Service"]
	pod := at(t, set, "spec", "template", "spec")
	container := at(t, pod, "containers", "#0")

	text := at(t, byKind["ConfigMap"], "data", "spillway.toml").(string)
	f, err := config.Parse("spillway.toml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	f.Pool.Name = "spillway-0" // of the pod's host
	if err := f.Check(); err != nil && !strings.Contains(err.Error(), "/etc/spillway-") {
		t.Error(err)
	}
	if f.Pool.Insecure() != "" || f.PoolDir() != "/data/store.pool" {
		t.Errorf("%s, %s", f.Pool.Insecure(), f.PoolDir())
	}

	name := at(t, service, "metadata", "name")
	if at(t, set, "spec", "serviceName") != name || !slices.Contains(f.Pool.Seeds, name.(string)) || at(t, service, "spec", "clusterIP") != "None" ||
		at(t, service, "spec", "publishNotReadyAddresses") != "true" {
		t.Errorf("nodes do not find each other by %v", name)
	}
	want := map[string]bool{config.DataPort + "/TCP": true, config.GossipPort + "/TCP": true, config.GossipPort + "/UDP": true}
	for what, ports := range map[string]any{"service": at(t, service, "spec", "ports"), "network policy": at(t, byKind["NetworkPolicy"], "spec", "ingress", "#0", "ports")} {
		got := map[string]bool{}
		for _, p := range ports.([]any) {
			got[fmt.Sprintf("%v/%v", at(t, p, "port"), at(t, p, "protocol"))] = true
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: ports %v, want %v", what, got, want)
		}
	}
	for _, probe := range []string{"startupProbe", "readinessProbe", "livenessProbe"} {
		path := map[bool]string{true: "/healthz", false: "/readyz"}[probe == "livenessProbe"]
		if at(t, container, probe, "httpGet", "path") != path || at(t, container, probe, "httpGet", "port") != "admin" || !strings.HasSuffix(f.Admin.Address, ":9470") {
			t.Errorf("%s: %v", probe, at(t, container, probe))
		}
	}
	checkMounts(t, pod, f)
	labels := at(t, set, "spec", "template", "metadata", "labels", "app")
	for _, selector := range []any{at(t, service, "spec", "selector"), at(t, set, "spec", "selector", "matchLabels"), at(t, byKind["NetworkPolicy"], "spec", "podSelector", "matchLabels")} {
		if at(t, selector, "app") != labels {
			t.Errorf("%v does not select the pods", selector)
		}
	}
}

// TestRDMAPatch: the patch for RDMA is of the container that there is, and what it hides of
// the unit's protection the unit has.
func TestRDMAPatch(t *testing.T) {
	patch := manifest(t, "kubernetes/rdma.yaml")[0]
	for _, d := range manifest(t, "kubernetes/spillway.yaml") {
		if at(t, d, "kind") == "StatefulSet" && at(t, d, "spec", "template", "spec", "containers", "#0", "name") != at(t, patch, "spec", "template", "spec", "containers", "#0", "name") {
			t.Error("the patch is of another container")
		}
	}
	of := func(name string) map[string]string {
		text, err := os.ReadFile(filepath.Join(deployDir, "systemd", name))
		if err != nil {
			t.Fatal(err)
		}
		settings := map[string]string{}
		for line := range strings.Lines(string(text)) {
			if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && line[0] != '#' {
				settings[key] = strings.TrimSpace(settings[key] + " " + value)
			}
		}
		return settings
	}
	unit, more := of("spillway.service"), of("rdma.conf")
	if unit["PrivateDevices"] != "true" || more["PrivateDevices"] != "false" || !strings.Contains(more["DeviceAllow"], "infiniband_verbs") || more["DevicePolicy"] != "closed" {
		t.Errorf("devices: %q and %q", unit, more)
	}
	if strings.Contains(unit["RestrictAddressFamilies"], "AF_NETLINK") || more["RestrictAddressFamilies"] != "AF_NETLINK" || unit["LimitMEMLOCK"] != "infinity" {
		t.Errorf("netlink and memory: %q and %q", unit, more)
	}
}

// checkMounts wants every path of the configuration on a volume that there is.
func checkMounts(t *testing.T, pod any, f *config.File) {
	t.Helper()
	volumes := []string{"data"} // a claim's
	for _, v := range at(t, pod, "volumes").([]any) {
		volumes = append(volumes, at(t, v, "name").(string))
	}
	mounts := at(t, pod, "containers", "#0", "volumeMounts").([]any)
	for _, m := range mounts {
		if !slices.Contains(volumes, at(t, m, "name").(string)) {
			t.Errorf("%v is no volume", m)
		}
	}
	for _, path := range []string{f.Stores[0].Dir, f.PoolDir(), f.Socket.Path, f.Pool.Keyring, f.Pool.TLSCert, f.Pool.TLSKey, f.Pool.TLSCA} {
		if !slices.ContainsFunc(mounts, func(m any) bool { return strings.HasPrefix(path, at(t, m, "mountPath").(string)+"/") }) {
			t.Errorf("%s is on no volume", path)
		}
	}
}

// TestCompose: the flags of the three containers are flags of serve, each has volumes of
// its own, and all join all.
func TestCompose(t *testing.T) {
	file := manifest(t, "container/compose.yaml")[0]
	services := at(t, file, "services").(map[string]any)
	if len(services) != 3 {
		t.Fatalf("%d services", len(services))
	}
	volumes := map[string]bool{}
	for name, s := range services {
		var args []string
		for _, a := range at(t, s, "command").([]any) {
			args = append(args, a.(string))
		}
		parsed, err := newParser(&state{}, nil).Parse(args)
		if err != nil {
			t.Fatal(err)
		}
		serve := parsed.Selected().Target.Addr().Interface().(*serveCmd)
		if serve.Pool == "" || !slices.Contains(serve.Join, name) || len(serve.Join) != 3 || at(t, s, "hostname") != name {
			t.Errorf("%s: %+v", name, serve)
		}
		for _, v := range at(t, s, "volumes").([]any) {
			volume, _, _ := strings.Cut(v.(string), ":")
			if volumes[volume] || at(t, file, "volumes", volume) == nil {
				t.Errorf("%s: volume %s is another's, or is not made", name, volume)
			}
			volumes[volume] = true
		}
	}
}

// TestDeployWords: what the pages of deploy have people run is there.
func TestDeployWords(t *testing.T) {
	known := map[string]bool{}
	for _, n := range leaves() {
		known[strings.TrimPrefix(n.FullPath(), "spillway ")] = true
	}
	for _, name := range []string{"kubernetes/README.md", "container/compose.yaml", "container/README.md"} {
		text, err := os.ReadFile(filepath.Join(deployDir, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range strings.Split(string(text), "spillway pool ")[1:] {
			word := strings.FieldsFunc(part, func(r rune) bool { return r < 'a' || r > 'z' })[0]
			if !known["pool "+word] && word != "keys" {
				t.Errorf("%s: there is no spillway pool %s", name, word)
			}
		}
	}
}
