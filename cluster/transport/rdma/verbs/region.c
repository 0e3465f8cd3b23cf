//go:build verbs && cgo && linux

#include "library.h"

#include <stdlib.h>

struct sv_region {
	struct sv_library *l;
	struct ibv_mr *mr;
};

static int sv_rights(int remote_write)
{
	return remote_write ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE : 0;
}

/* Takes the outcome of a registration in. */
static int sv_region_made(struct sv_region *r, struct sv_region **out, struct sv_keys *keys)
{
	if (!r->mr) {
		int rc = sv_failed();
		free(r);
		return rc;
	}
	*keys = (struct sv_keys){.local = r->mr->lkey, .remote = r->mr->rkey};
	*out = r;
	return 0;
}

int sv_register(struct sv_context *c, uintptr_t address, size_t bytes, int remote_write, struct sv_region **out, struct sv_keys *keys)
{
	struct sv_region *r = calloc(1, sizeof *r);
	if (!r)
		return ENOMEM;
	r->l = c->l;
	int rights = sv_rights(remote_write);
	do {
		errno = 0;
		/* Bytes of one write may be stored in any order: nobody looks at them before
		 * the completion. A device that cannot do that takes no notice. */
		r->mr = remote_write && c->l->ibv_reg_mr_iova2
				? c->l->ibv_reg_mr_iova2(c->domain, (void *)address, bytes, address, (unsigned int)rights | IBV_ACCESS_RELAXED_ORDERING)
				: c->l->ibv_reg_mr(c->domain, (void *)address, bytes, rights);
	} while (!r->mr && errno == EINTR);
	return sv_region_made(r, out, keys);
}

int sv_register_gpu(struct sv_context *c, int dma_buf, uint64_t offset, size_t bytes, uint64_t address, int remote_write,
	struct sv_region **out, struct sv_keys *keys)
{
	if (!sv_has_gpu(c->l))
		return EOPNOTSUPP;
	struct sv_region *r = calloc(1, sizeof *r);
	if (!r)
		return ENOMEM;
	r->l = c->l;
	do {
		errno = 0;
		r->mr = c->l->ibv_reg_dmabuf_mr(c->domain, offset, bytes, address, dma_buf, sv_rights(remote_write));
	} while (!r->mr && errno == EINTR);
	return sv_region_made(r, out, keys);
}

int sv_has_gpu(struct sv_library *l) { return l->ibv_reg_dmabuf_mr != NULL; }

int sv_deregister(struct sv_region *r)
{
	int rc;
	while ((rc = r->l->ibv_dereg_mr(r->mr)) == EINTR)
		;
	if (!rc)
		free(r);
	return rc;
}
