// A stand-in for libnvidia-ml.so.1 with two GPUs: the first has all but a
// temperature, the second refuses its energy. There is no symbol for the
// temperature: a call of it would end the process. Macro INIT: what
// nvmlInit_v2 answers.
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#ifndef INIT
#define INIT 0
#endif

enum { OK = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3 };

static int initialised;
static int gpus[2];
#define INDEX(device) ((int)((int *)(device) - gpus))
#define ENTER(device) do { if (!initialised) return UNINITIALIZED; if (INDEX(device) < 0 || INDEX(device) > 1) return INVALID_ARGUMENT; } while (0)

int nvmlInit_v2(void) {
	initialised = INIT == 0;
	return INIT;
}
int nvmlShutdown(void) {
	if (!initialised) return UNINITIALIZED;
	initialised = 0;
	return OK;
}
const char *nvmlErrorString(int code) { return code == INVALID_ARGUMENT ? "stub: invalid argument" : "stub: error"; }
int nvmlSystemGetDriverVersion(char *text, unsigned n) { return snprintf(text, n, "580.65.06"), initialised ? OK : UNINITIALIZED; }
int nvmlDeviceGetCount_v2(unsigned *count) { return *count = 2, initialised ? OK : UNINITIALIZED; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
	if (index > 1) return INVALID_ARGUMENT;
	*device = &gpus[index];
	return OK;
}
int nvmlDeviceGetName(void *device, char *text, unsigned n) {
	ENTER(device);
	snprintf(text, n, "Stub H200 %d", INDEX(device));
	return OK;
}
int nvmlDeviceGetUUID(void *device, char *text, unsigned n) {
	ENTER(device);
	snprintf(text, n, "GPU-a0a1a2a3-a4a5-a6a7-a8a9-aaabacadae%02x", 0xaf + INDEX(device));
	return OK;
}
struct pci { // nvmlPciInfo_t
	char legacy[16];
	unsigned domain, bus, device, id, subsystem;
	char text[32];
};
int nvmlDeviceGetPciInfo_v3(void *device, struct pci *pci) {
	ENTER(device);
	snprintf(pci->text, sizeof pci->text, "00000000:%02X:00.0", 0xab + INDEX(device));
	return OK;
}
int nvmlDeviceGetCurrPcieLinkGeneration(void *device, unsigned *n) { ENTER(device); *n = 1; return OK; }
int nvmlDeviceGetCurrPcieLinkWidth(void *device, unsigned *n) { ENTER(device); *n = INDEX(device) ? 8 : 16; return OK; }
int nvmlDeviceGetMaxPcieLinkGeneration(void *device, unsigned *n) { ENTER(device); *n = 5; return OK; }
int nvmlDeviceGetMaxPcieLinkWidth(void *device, unsigned *n) { ENTER(device); *n = 16; return OK; }
struct memory { // nvmlMemory_v2_t
	unsigned version;
	unsigned long long total, reserved, free, used;
};
int nvmlDeviceGetMemoryInfo_v2(void *device, struct memory *m) {
	ENTER(device);
	if (m->version != (sizeof *m | 2u << 24)) return INVALID_ARGUMENT;
	m->total = 150ull << 30;
	m->free = 100ull << 30;
	return OK;
}
int nvmlDeviceGetMemoryBusWidth(void *device, unsigned *bits) { ENTER(device); *bits = 6144; return OK; }
int nvmlDeviceGetMaxClockInfo(void *device, int type, unsigned *MHz) { // of memory: 2
	ENTER(device);
	if (type != 2 || INDEX(device)) return NOT_SUPPORTED;
	*MHz = 3201;
	return OK;
}
int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *mJ) {
	ENTER(device);
	*mJ = 0x123456789abull;
	return INDEX(device) ? NOT_SUPPORTED : OK;
}
