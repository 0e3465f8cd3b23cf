# Spillway. `make` alone lists the targets. Variables, set as in `make bench-go BENCH=Get`:
#   GO        the go command                                  (go)
#   TAGS      build tags of build, as in `make build TAGS=verbs` for RDMA (docs/rdma.md)  (none)
#   PKG       packages for test-long, bench-go and fuzz       (./...)
#   BENCH     which benchmarks run, a regular expression      (.)
#   BENCHFLAGS  flags of bench, as in BENCHFLAGS='-only reads,puts' (docs/benchmarks.md)
#   COUNT     how often each benchmark runs                   (1; benchstat wants 10)
#   FUZZTIME  how long each fuzz target runs                  (10s)
#   DEMOTIME  how long the demo's replay runs                 (20s)
#   TIMEOUT   bound of test-long, each of its two halves      (4h)

GO       ?= go
TAGS     ?=
PKG      ?= ./...
BENCH    ?= .
COUNT    ?= 1
FUZZTIME ?= 10s
DEMOTIME ?= 20s
TIMEOUT  ?= 4h

# NVML's binding names functions that NVIDIA calls outdated; a page of warnings says so.
export CGO_CFLAGS ?= -g -O2 -Wno-deprecated-declarations

# Rooms whose goroutines share memory: their short tests run again under the race detector.
RACED := ./engine/... ./wal/... ./cluster/... ./tiering/admit ./tiering/arena ./tiering/gpu ./tiering/memory ./tiering/prefetch ./tiering/worth ./fio/result ./integration/mount ./cmd/spillway/replay ./cmd/spillway/admin ./cmd/spillway/daemon

.DEFAULT_GOAL := help
.PHONY: help build demo test test-python test-vm test-verbs test-full test-long test-integration bench bench-go gpu-check fuzz lint fmt check clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-18s%s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "Variables and their defaults are listed at the top of the Makefile."

build: ## build bin/spillway; TAGS=verbs: with RDMA
	@case ',$(TAGS),' in *,verbs,*) .ci/verbs-headers '$(GO)';; esac
	@test -x bin/spillway || echo "building, the first build compiles the index library and takes a minute or two"
	$(GO) build -tags '$(TAGS)' -o bin/spillway ./cmd/spillway

demo: build ## replay generated chats against a fresh store and judge the read latency
	@.ci/demo bin/spillway $(DEMOTIME)

test: ## vet, the tests in their short form, hundreds of random histories, the race detector: minutes
	@echo "testing, the first run compiles everything twice and takes some minutes"
	$(GO) vet ./...
	$(GO) test -short -timeout 20m $$($(GO) list ./... | grep -v -e /integration/system -e /engine/history)
	$(GO) test ./engine/history
	$(GO) test -race -short -timeout 20m $(RACED)
	@if command -v python3 >/dev/null; then $(MAKE) --no-print-directory test-python; else echo "no python3 here: the Python client is not tested"; fi

# The Python client, with no package but itself, against a daemon of this build.
test-python: build ## the Python client and its tier against recorded signatures of vLLM
	cd python/tests && PYTHONPATH=../src SPILLWAY_BIN=$(CURDIR)/bin/spillway python3 -m unittest discover

test-vm: ## RDMA on real verbs, and a drive that goes bad, in a virtual machine: minutes; says what is missing for it
	@.ci/vm
	$(GO) test -count=1 -v $(if $(SPILLWAY_LONG),-timeout 2h,-timeout 60m -run 'TestMachine$$') ./integration/vm

# What needs no device of the build with verbs; the rest is test-vm's.
test-verbs: ## the build with RDMA: vet, and its tests that need no device; says what is missing for it
	@if .ci/verbs-headers '$(GO)'; then $(GO) vet -tags verbs ./... && \
		$(GO) test -short -tags verbs ./cluster/transport/rdma/verbs ./cmd/spillway/doctor ./cmd/spillway/daemon; \
	else echo "the build with verbs is not tested"; fi

test-full: ## every test in its ordinary form, whole-system tests included; before a change lands
	$(GO) test ./...

test-long: ## hours: long histories and crash loops, then again able to plant bugs
	SPILLWAY_LONG=1 $(GO) test -count=1 -timeout $(TIMEOUT) $(PKG)
	SPILLWAY_LONG=1 $(GO) test -count=1 -timeout $(TIMEOUT) -tags plantedbugs $(PKG)

test-integration: build ## whole-system tests only, never from the cache; vLLM and transformers, some GB the first time
	$(GO) test -count=1 ./integration/...
	SPILLWAY_BIN=bin/spillway python3 python/tests/integrate.py

bench: build ## one store against fio and others, into docs/benchmarks.md: an hour of a quiet machine
	$(GO) run ./integration/bench -spillway bin/spillway -docs docs $(BENCHFLAGS)

bench-go: ## Go benchmarks, in benchstat's format
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -count=$(COUNT) $(PKG)

gpu-check: build ## on a GPU, under 8 minutes: copies, disk to GPU, time of a token, the gate; "no GPU" and code 3 without (docs/gpu.md)
	$(GO) test -c -o bin/gpu-check ./integration/gpucheck
	SPILLWAY_GPU=1 bin/gpu-check

fuzz: ## every fuzz target for FUZZTIME
	@GO='$(GO)' .ci/fuzz $(FUZZTIME) $(PKG)

lint: ## format, vet, the house rules, staticcheck
	$(GO) vet ./...
	$(GO) test ./integration/house
	$(GO) tool -modfile=.ci/tools/go.mod staticcheck ./...

fmt: ## format all Go files
	find . -name '*.go' -not -path '*/testdata/*' -not -path './shared/*' -exec gofmt -w {} +

check: test lint ## what CI runs

clean: ## remove what the targets left behind
	rm -rf bin .demo-*
