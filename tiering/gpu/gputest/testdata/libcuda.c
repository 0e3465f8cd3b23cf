// A stand-in for libcuda.so.1 that checks how it is called. Memory of the GPU is
// malloc's; copies are queued and made when an event behind them has been asked
// for twice. Macros choose what it is: BATCH (8, 9 or 0: which form of the batch
// call there is), INIT (what cuInit answers), DEVICES, MIB (the memory of each),
// PAGEABLE (1: memory that is not registered is copied too, as by a driver), DMABUF (0: a
// driver that knows of no dma-bufs, 2: one that refuses them; here they are files with a copy
// of the memory).
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef BATCH
#define BATCH 8
#endif
#ifndef INIT
#define INIT 0
#endif
#ifndef DEVICES
#define DEVICES 2
#endif
#ifndef MIB
#define MIB 64
#endif
#ifndef DMABUF
#define DMABUF 1
#endif
#ifndef PAGEABLE
#define PAGEABLE 0
#endif

// A CUresult has 32 bits, but the upper half of the register may hold anything.
typedef int64_t result;
#define RESULT(code) ((result)(0xdeadbeef00000000ull | (uint32_t)(code)))

enum {
	OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, INVALID_DEVICE = 101,
	INVALID_CONTEXT = 201, NOT_READY = 600, ALREADY_REGISTERED = 712, NOT_REGISTERED = 713,
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int initialised, contexts[DEVICES];
static __thread int *current; // a context belongs to a thread

#define ENTER()                                                              \
	if (!initialised) return RESULT(NOT_INITIALIZED);                        \
	if (current < contexts || current >= contexts + DEVICES || !*current)    \
		return RESULT(INVALID_CONTEXT);                                      \
	pthread_mutex_lock(&mutex)
#define LEAVE(code) do { result r_ = RESULT(code); pthread_mutex_unlock(&mutex); return r_; } while (0)

result cuInit(unsigned flags) {
	initialised = INIT == 0;
	return RESULT(flags ? INVALID_VALUE : INIT);
}

result cuDriverGetVersion(int *version) {
	*version = BATCH == 8 ? 13000 : BATCH == 9 ? 12080 : 12000;
	return RESULT(OK);
}

result cuGetErrorName(int code, const char **name) {
	static const struct { int code; const char *name; } names[] = {
		{INVALID_VALUE, "STUB_INVALID_VALUE"}, {OUT_OF_MEMORY, "STUB_OUT_OF_MEMORY"},
		{INVALID_CONTEXT, "STUB_INVALID_CONTEXT"}, {ALREADY_REGISTERED, "STUB_ALREADY_REGISTERED"},
		{NOT_REGISTERED, "STUB_NOT_REGISTERED"}, {100, "STUB_NO_DEVICE"}, {803, "STUB_MISMATCH"}, {7, "STUB_SEVEN"},
	};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (names[i].code == code) {
			*name = names[i].name;
			return RESULT(OK);
		}
	*name = 0;
	return RESULT(INVALID_VALUE);
}

result cuDeviceGetCount(int *count) {
	if (!initialised) return RESULT(NOT_INITIALIZED);
	*count = DEVICES;
	return RESULT(OK);
}

// A CUdevice is not its ordinal here, so that mixing them up shows.
#define HANDLE 40
result cuDeviceGet(int *device, int ordinal) {
	if (ordinal < 0 || ordinal >= DEVICES) return RESULT(INVALID_DEVICE);
	*device = HANDLE + ordinal;
	return RESULT(OK);
}
static int ordinal(int device) { return device >= HANDLE && device < HANDLE + DEVICES ? device - HANDLE : -1; }

result cuDeviceGetName(char *name, int bytes, int device) {
	if (ordinal(device) < 0 || bytes != 256) return RESULT(INVALID_VALUE);
	strcpy(name, "Stub H200");
	return RESULT(OK);
}

result cuDeviceGetAttribute(int *value, int attribute, int device) {
	if (ordinal(device) < 0) return RESULT(INVALID_DEVICE);
	switch (attribute) {
	case 75: *value = 9; return RESULT(OK);
	case 76: *value = 0; return RESULT(OK);
	case 91: case 99: *value = 1; return RESULT(OK);
	case 124: *value = DMABUF > 0; return RESULT(OK);
	case 113: *value = 0; return RESULT(OK);
	}
	return RESULT(INVALID_VALUE);
}

#define TOTAL ((size_t)MIB << 20)
result cuDeviceTotalMem_v2(size_t *bytes, int device) {
	if (ordinal(device) < 0) return RESULT(INVALID_DEVICE);
	*bytes = TOTAL;
	return RESULT(OK);
}

result cuDeviceGetUuid_v2(unsigned char *uuid, int device) {
	if (ordinal(device) < 0) return RESULT(INVALID_DEVICE);
	for (int i = 0; i < 16; i++) uuid[i] = 0xa0 + i;
	return RESULT(OK);
}

result cuDeviceGetPCIBusId(char *id, int bytes, int device) {
	if (ordinal(device) < 0 || bytes < 13) return RESULT(INVALID_VALUE);
	strcpy(id, "0000:AB:00.0");
	return RESULT(OK);
}

result cuDevicePrimaryCtxRetain(int **context, int device) {
	if (ordinal(device) < 0) return RESULT(INVALID_DEVICE);
	pthread_mutex_lock(&mutex);
	contexts[ordinal(device)]++;
	*context = &contexts[ordinal(device)];
	LEAVE(OK);
}

result cuDevicePrimaryCtxRelease_v2(int device) {
	if (ordinal(device) < 0) return RESULT(INVALID_DEVICE);
	pthread_mutex_lock(&mutex);
	if (!contexts[ordinal(device)]) LEAVE(INVALID_CONTEXT);
	contexts[ordinal(device)]--;
	LEAVE(OK);
}

result cuCtxSetCurrent(int *context) {
	current = context;
	return RESULT(OK);
}

#define PLACES 4096
static struct { uintptr_t start, end; } registered[PLACES];
static int nRegistered;

static int touches(uintptr_t start, size_t n);
static int within(uintptr_t start, size_t n) {
	if (PAGEABLE && !touches(start, n)) return 1;
	for (int i = 0; i < nRegistered; i++)
		if (start >= registered[i].start && start + n <= registered[i].end) return 1;
	return 0;
}

static int touches(uintptr_t start, size_t n) {
	for (int i = 0; i < nRegistered; i++)
		if (start < registered[i].end && start + n > registered[i].start) return 1;
	return 0;
}

result cuMemHostRegister_v2(void *p, size_t n, unsigned flags) {
	ENTER();
	if (n == 0 || flags & ~3u || nRegistered == PLACES) LEAVE(INVALID_VALUE);
	if (n >= (size_t)512 << 30) LEAVE(OUT_OF_MEMORY);
	if (touches((uintptr_t)p, n)) LEAVE(ALREADY_REGISTERED);
	registered[nRegistered].start = (uintptr_t)p;
	registered[nRegistered++].end = (uintptr_t)p + n;
	LEAVE(OK);
}

result cuMemHostUnregister(void *p) {
	ENTER();
	for (int i = 0; i < nRegistered; i++)
		if (registered[i].start == (uintptr_t)p) {
			registered[i] = registered[--nRegistered];
			LEAVE(OK);
		}
	LEAVE(NOT_REGISTERED);
}

static struct { uint64_t start; size_t bytes; } blocks[PLACES];
static int nBlocks;
static size_t used;

result cuMemAlloc_v2(uint64_t *p, size_t n) {
	ENTER();
	void *memory;
	if (n == 0) LEAVE(INVALID_VALUE);
	if (n > TOTAL - used || nBlocks == PLACES || posix_memalign(&memory, 4096, n)) LEAVE(OUT_OF_MEMORY);
	used += n;
	*p = blocks[nBlocks].start = (uint64_t)(uintptr_t)memory;
	blocks[nBlocks++].bytes = n;
	LEAVE(OK);
}

result cuMemFree_v2(uint64_t p) {
	ENTER();
	for (int i = 0; i < nBlocks; i++)
		if (blocks[i].start == p) {
			free((void *)(uintptr_t)p);
			used -= blocks[i].bytes;
			blocks[i] = blocks[--nBlocks];
			LEAVE(OK);
		}
	LEAVE(INVALID_VALUE);
}

#if DMABUF
result cuMemGetHandleForAddressRange(void *handle, uint64_t p, size_t n, int type, unsigned long long flags) {
	ENTER();
	if (DMABUF == 2) LEAVE(801);
	if (n == 0 || p % 4096 || n % 4096 || type != 1 || flags) LEAVE(INVALID_VALUE);
	for (int i = 0; i < nBlocks; i++)
		if (p >= blocks[i].start && p + n <= blocks[i].start + blocks[i].bytes) {
			int fd = memfd_create("stub-dma-buf", 0);
			if (fd < 0 || write(fd, (void *)(uintptr_t)p, n) != (ssize_t)n) LEAVE(OUT_OF_MEMORY);
			*(int *)handle = fd;
			LEAVE(OK);
		}
	LEAVE(INVALID_VALUE);
}
#endif

result cuMemGetInfo_v2(size_t *left, size_t *total) {
	ENTER();
	*left = TOTAL - used;
	*total = TOTAL;
	LEAVE(OK);
}

static int allocated(uint64_t p, size_t n) {
	for (int i = 0; i < nBlocks; i++)
		if (p >= blocks[i].start && p + n <= blocks[i].start + blocks[i].bytes) return 1;
	return 0;
}

struct work {
	void *to;
	const void *from;
	size_t n;
	struct stream *wait; // run this one up to n in place of a copy
};
struct stream {
	struct work *work;
	size_t n, done, room;
};

static void run(struct stream *s, size_t until) {
	while (s->done < until) {
		struct work *w = &s->work[s->done++];
		if (w->wait) run(w->wait, w->n);
		else memcpy(w->to, w->from, w->n);
	}
}

static void push(struct stream *s, struct work w) {
	if (s->n == s->room) {
		s->room = s->room ? 2 * s->room : 64;
		s->work = realloc(s->work, s->room * sizeof w);
	}
	s->work[s->n++] = w;
}

result cuStreamCreate(struct stream **s, unsigned flags) {
	ENTER();
	if (flags != 1) LEAVE(INVALID_VALUE); // not the default stream's friend
	*s = calloc(1, sizeof **s);
	LEAVE(OK);
}

result cuStreamDestroy_v2(struct stream *s) {
	ENTER();
	run(s, s->n);
	free(s->work);
	free(s);
	LEAVE(OK);
}

static int transfer(struct stream *s, uint64_t device, const void *host, size_t n) {
	return s && allocated(device, n) && within((uintptr_t)host, n) ? OK : INVALID_VALUE;
}

result cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t n, struct stream *s) {
	ENTER();
	int code = transfer(s, to, from, n);
	if (!code) push(s, (struct work){(void *)(uintptr_t)to, from, n, 0});
	LEAVE(code);
}

result cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t n, struct stream *s) {
	ENTER();
	int code = transfer(s, from, to, n);
	if (!code) push(s, (struct work){to, (void *)(uintptr_t)from, n, 0});
	LEAVE(code);
}

result cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t n, struct stream *s) {
	ENTER();
	if (!s || !allocated(to, n) || !allocated(from, n)) LEAVE(INVALID_VALUE);
	push(s, (struct work){(void *)(uintptr_t)to, (const void *)(uintptr_t)from, n, 0});
	LEAVE(OK);
}

#if BATCH
struct attributes {
	uint32_t order;
	int32_t locations[4];
	uint32_t flags;
};
_Static_assert(sizeof(struct attributes) == 24, "CUmemcpyAttributes");

static int batch(uint64_t *to, uint64_t *from, size_t *sizes, size_t n, struct attributes *a, size_t *first,
                 size_t nAttributes, size_t *failed, struct stream *s) {
	if (n == 0 || nAttributes != 1 || *first != 0 || a->order != 1 || a->flags || !s) return INVALID_VALUE;
	for (int i = 0; i < 4; i++)
		if (a->locations[i]) return INVALID_VALUE;
	for (size_t i = 0; i < n; i++) {
		int out = allocated(to[i], sizes[i]) && within(from[i], sizes[i]);
		int in = allocated(from[i], sizes[i]) && within(to[i], sizes[i]);
		if (sizes[i] == 0 || !(out || in)) {
			if (failed) *failed = i;
			return INVALID_VALUE;
		}
	}
	for (size_t i = n; i-- > 0;) // in any order
		push(s, (struct work){(void *)(uintptr_t)to[i], (void *)(uintptr_t)from[i], sizes[i], 0});
	return OK;
}
#endif

#if BATCH == 8
result cuMemcpyBatchAsync_v2(uint64_t *to, uint64_t *from, size_t *sizes, size_t n, struct attributes *a,
                             size_t *first, size_t nAttributes, struct stream *s) {
	ENTER();
	LEAVE(batch(to, from, sizes, n, a, first, nAttributes, 0, s));
}
#endif
#if BATCH
// Here in both cases, as in a driver of CUDA 13: there it must not be taken.
result cuMemcpyBatchAsync(uint64_t *to, uint64_t *from, size_t *sizes, size_t n, struct attributes *a,
                          size_t *first, size_t nAttributes, size_t *failed, struct stream *s) {
	ENTER();
	if (BATCH == 8) LEAVE(7);
	LEAVE(batch(to, from, sizes, n, a, first, nAttributes, failed, s));
}
#endif

struct event {
	struct stream *s;
	size_t until;
	int asked;
};

result cuEventCreate(struct event **e, unsigned flags) {
	ENTER();
	if (flags != 2) LEAVE(INVALID_VALUE); // no timing
	*e = calloc(1, sizeof **e);
	LEAVE(OK);
}

result cuEventRecord(struct event *e, struct stream *s) {
	ENTER();
	*e = (struct event){s, s->n, 0};
	LEAVE(OK);
}

result cuStreamWaitEvent(struct stream *s, struct event *e, unsigned flags) {
	ENTER();
	if (flags) LEAVE(INVALID_VALUE);
	push(s, (struct work){0, 0, e->until, e->s});
	LEAVE(OK);
}

result cuEventQuery(struct event *e) {
	ENTER();
	if (e->asked++ < 2) LEAVE(NOT_READY);
	run(e->s, e->until);
	LEAVE(OK);
}

result cuEventDestroy_v2(struct event *e) {
	ENTER();
	free(e);
	LEAVE(OK);
}
