/* What the Go side may call. Integer results are 0 or an errno, unless said otherwise.
 * No pointer to memory of Go is kept. Callers see to it that nothing is used after it was
 * closed, and that one object is not closed twice. */
#ifndef SPILLWAY_VERBS_SHIM_H
#define SPILLWAY_VERBS_SHIM_H

#include <stddef.h>
#include <stdint.h>

#define SV_INLINE_BYTES 64 /* of one write, copied into the queue */
#define SV_TEXT_BYTES 256

/* load.c: the library, whose functions are looked up by name at run time. */
struct sv_library;
int sv_load(const char *name, struct sv_library **out, char *text, size_t text_bytes); /* ENOENT: text says why */
void sv_unload(struct sv_library *l);

/* context.c: devices. */
struct sv_list;
int sv_list_devices(struct sv_library *l, struct sv_list **out, int *count);
const char *sv_list_name(struct sv_list *s, int i); /* "mlx5_0" */
const char *sv_list_file(struct sv_list *s, int i); /* "uverbs0", of /dev/infiniband */
void sv_list_free(struct sv_list *s);

struct sv_context;
int sv_context_open(struct sv_list *s, int i, struct sv_context **out);
int sv_context_close(struct sv_context *c);
int sv_domain_open(struct sv_context *c); /* wanted before regions and queue pairs */

struct sv_limits {
	uint64_t region_bytes_max;
	uint32_t requests_max;    /* posted on one queue of a queue pair */
	uint32_t completions_max; /* of one completion queue */
	uint8_t ports;
};
int sv_limits_query(struct sv_context *c, struct sv_limits *out);

struct sv_port {
	uint32_t message_bytes_max;
	uint32_t mtu_bytes;
	uint32_t gids; /* length of its table */
	uint16_t lid;
	uint8_t state; /* enum ibv_port_state */
	uint8_t ethernet;
	uint8_t grh; /* every packet must have a global header */
};
int sv_port_query(struct sv_context *c, uint8_t port, struct sv_port *out);

struct sv_gid {
	uint8_t address[16];
	uint32_t index;
	uint32_t port;
	uint32_t type; /* 0 InfiniBand, 1 RoCE v1, 2 RoCE v2 */
	uint32_t interface;
};
int sv_gid_query(struct sv_context *c, uint8_t port, uint32_t index, uint8_t address[16]);
/* All GIDs in use, of all ports: their number, or minus an errno (EOPNOTSUPP: old library). */
int sv_gids_query(struct sv_context *c, struct sv_gid *out, size_t max);

#define SV_EVENT_OTHER 0
#define SV_EVENT_PORT 1
#define SV_EVENT_FATAL 2
int sv_events_fd(struct sv_context *c);               /* never blocks */
int sv_event_take(struct sv_context *c, int *event); /* EAGAIN: there is none */

/* region.c: memory. */
struct sv_region;
struct sv_keys {
	uint32_t local;
	uint32_t remote;
};
int sv_register(struct sv_context *c, uintptr_t address, size_t bytes, int remote_write, struct sv_region **out, struct sv_keys *keys);
int sv_register_gpu(struct sv_context *c, int dma_buf, uint64_t offset, size_t bytes, uint64_t address, int remote_write,
	struct sv_region **out, struct sv_keys *keys); /* EOPNOTSUPP: cannot */
int sv_deregister(struct sv_region *r);
int sv_has_gpu(struct sv_library *l);

/* pair.c: queue pairs. */
#define SV_SENDS 0
#define SV_RECEIVES 1
struct sv_pair;
int sv_pair_open(struct sv_context *c, uint8_t port, uint32_t sends, uint32_t receives, int remote_write, struct sv_pair **out, uint32_t *number);
/* The fence; then everything else of the pair. After an error all of it is still there. */
int sv_pair_close(struct sv_pair *p);

struct sv_path {
	uint8_t gid[16];
	uint32_t number;
	uint32_t packet_local;
	uint32_t packet_remote;
	uint32_t mtu_bytes;
	uint32_t gid_index_local;
	uint16_t lid;
	uint8_t port;
	uint8_t global; /* with a global header */
	uint8_t timeout;
	uint8_t retries;
	uint8_t traffic_class;
	uint8_t service_level;
	uint8_t hop_limit;
};
int sv_pair_connect(struct sv_pair *p, const struct sv_path *path);
int sv_pair_fail(struct sv_pair *p); /* no use of it any more; no fence */

struct sv_write {
	uint64_t source;
	uint64_t target;
	uint32_t source_key;
	uint32_t target_key;
	uint32_t bytes;
	uint32_t immediate;
	uint8_t notify;
	uint8_t is_inline;
	uint8_t data[SV_INLINE_BYTES];
};
/* Posts count writes in order, under one number; the last one is told. posted: 0 none, count
 * all, -1 some, or it is not known. */
int sv_post_writes(struct sv_pair *p, const struct sv_write *list, uint32_t count, uint64_t number, int *posted);
int sv_post_receives(struct sv_pair *p, uint32_t count);

struct sv_done {
	uint64_t number;
	uint32_t status;
	uint32_t immediate;
	uint8_t has_immediate;
};
int sv_poll(struct sv_pair *p, int queue, struct sv_done *out, int max); /* how many, or below 0: the queue is broken */
int sv_arm(struct sv_pair *p, int queue);                                /* takes events, and asks for one with the next completion */
int sv_channel_fd(struct sv_pair *p, int queue);                        /* never blocks */

#endif
