/* The library's functions, and what the C files share. */
#ifndef SPILLWAY_VERBS_LIBRARY_H
#define SPILLWAY_VERBS_LIBRARY_H

#include <errno.h>
#include <infiniband/verbs.h>

#include "shim.h"

/* Both are macros over other functions. */
#undef ibv_reg_mr
#undef ibv_query_port
#undef ibv_get_device_list

#define SV_FUNCTIONS(F) \
	F(ibv_get_device_list) F(ibv_free_device_list) F(ibv_get_device_name) F(ibv_open_device) F(ibv_close_device) \
	F(ibv_query_device) F(ibv_query_port) F(ibv_query_gid) F(ibv_get_async_event) F(ibv_ack_async_event) \
	F(ibv_alloc_pd) F(ibv_dealloc_pd) F(ibv_reg_mr) F(ibv_dereg_mr) \
	F(ibv_create_comp_channel) F(ibv_destroy_comp_channel) F(ibv_create_cq) F(ibv_destroy_cq) \
	F(ibv_get_cq_event) F(ibv_ack_cq_events) F(ibv_create_qp) F(ibv_modify_qp) F(ibv_destroy_qp)

/* Newer ones: NULL in an old library. */
#define SV_OPTIONAL(F) F(_ibv_query_gid_table) F(ibv_reg_mr_iova2) F(ibv_reg_dmabuf_mr)

struct sv_library {
	void *handle;
#define SV_POINTER(name) __typeof__(name) *name;
	SV_FUNCTIONS(SV_POINTER)
	SV_OPTIONAL(SV_POINTER)
#undef SV_POINTER
};

struct sv_context {
	struct sv_library *l;
	struct ibv_context *c;
	struct ibv_pd *domain;
};

/* The errno that a failed function left behind, never 0. */
static inline int sv_failed(void) { return errno ? errno : EIO; }

/* Makes reads of a descriptor return at once. */
int sv_never_block(int fd);

#endif
