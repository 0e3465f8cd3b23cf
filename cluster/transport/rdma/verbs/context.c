//go:build verbs && cgo && linux

#include "library.h"

#include <stdlib.h>
#include <string.h>

struct sv_list {
	struct sv_library *l;
	struct ibv_device **devices;
};

int sv_list_devices(struct sv_library *l, struct sv_list **out, int *count)
{
	struct sv_list *s = malloc(sizeof *s);
	if (!s)
		return ENOMEM;
	s->l = l;
	do {
		errno = 0;
		s->devices = l->ibv_get_device_list(count);
	} while (!s->devices && errno == EINTR);
	if (!s->devices) {
		int rc = sv_failed();
		free(s);
		return rc;
	}
	*out = s;
	return 0;
}

const char *sv_list_name(struct sv_list *s, int i) { return s->l->ibv_get_device_name(s->devices[i]); }

const char *sv_list_file(struct sv_list *s, int i) { return s->devices[i]->dev_name; }

void sv_list_free(struct sv_list *s)
{
	s->l->ibv_free_device_list(s->devices);
	free(s);
}

int sv_context_open(struct sv_list *s, int i, struct sv_context **out)
{
	struct sv_context *c = calloc(1, sizeof *c);
	if (!c)
		return ENOMEM;
	c->l = s->l;
	do {
		errno = 0;
		c->c = c->l->ibv_open_device(s->devices[i]);
	} while (!c->c && errno == EINTR);
	int rc = c->c ? sv_never_block(c->c->async_fd) : sv_failed();
	if (rc) {
		sv_context_close(c);
		return rc;
	}
	*out = c;
	return 0;
}

int sv_context_close(struct sv_context *c)
{
	int rc;
	if (c->domain) {
		while ((rc = c->l->ibv_dealloc_pd(c->domain)) == EINTR)
			;
		if (rc)
			return rc;
		c->domain = NULL;
	}
	if (c->c && c->l->ibv_close_device(c->c))
		return sv_failed();
	free(c);
	return 0;
}

int sv_domain_open(struct sv_context *c)
{
	do {
		errno = 0;
		c->domain = c->l->ibv_alloc_pd(c->c);
	} while (!c->domain && errno == EINTR);
	return c->domain ? 0 : sv_failed();
}

int sv_limits_query(struct sv_context *c, struct sv_limits *out)
{
	struct ibv_device_attr a;
	memset(&a, 0, sizeof a);
	int rc;
	while ((rc = c->l->ibv_query_device(c->c, &a)) == EINTR)
		;
	if (rc)
		return rc;
	*out = (struct sv_limits){
		.region_bytes_max = a.max_mr_size,
		.requests_max = a.max_qp_wr > 0 ? (uint32_t)a.max_qp_wr : 0,
		.completions_max = a.max_cqe > 0 ? (uint32_t)a.max_cqe : 0,
		.ports = a.phys_port_cnt,
	};
	return 0;
}

int sv_port_query(struct sv_context *c, uint8_t port, struct sv_port *out)
{
	/* The exported function fills a shorter, older struct: what it leaves out must be 0. */
	struct ibv_port_attr a;
	memset(&a, 0, sizeof a);
	struct verbs_context *extended = verbs_get_ctx_op(c->c, query_port);
	int rc;
	do {
		rc = extended ? extended->query_port(c->c, port, &a, sizeof a)
			      : c->l->ibv_query_port(c->c, port, (struct _compat_ibv_port_attr *)&a);
	} while (rc == EINTR);
	if (rc)
		return rc;
	*out = (struct sv_port){
		.message_bytes_max = a.max_msg_sz,
		.mtu_bytes = a.active_mtu >= IBV_MTU_256 && a.active_mtu <= IBV_MTU_4096 ? 128u << a.active_mtu : 0,
		.gids = a.gid_tbl_len > 0 ? (uint32_t)a.gid_tbl_len : 0,
		.lid = a.lid,
		.state = (uint8_t)a.state,
		.ethernet = a.link_layer == IBV_LINK_LAYER_ETHERNET,
		.grh = (a.flags & IBV_QPF_GRH_REQUIRED) != 0,
	};
	return 0;
}

int sv_gid_query(struct sv_context *c, uint8_t port, uint32_t index, uint8_t address[16])
{
	union ibv_gid g;
	errno = 0;
	if (c->l->ibv_query_gid(c->c, port, (int)index, &g))
		return sv_failed();
	memcpy(address, &g, sizeof g);
	return 0;
}

_Static_assert(sizeof(union ibv_gid) == 16, "a GID has 16 bytes");
_Static_assert(IBV_PORT_NOP == 0 && IBV_PORT_DOWN == 1 && IBV_PORT_ACTIVE == 4 && IBV_PORT_ACTIVE_DEFER == 5, "states of ports");
_Static_assert(IBV_GID_TYPE_IB == 0 && IBV_GID_TYPE_ROCE_V1 == 1 && IBV_GID_TYPE_ROCE_V2 == 2, "types of GIDs");

int sv_gids_query(struct sv_context *c, struct sv_gid *out, size_t max)
{
	if (!c->l->_ibv_query_gid_table)
		return -EOPNOTSUPP;
	struct ibv_gid_entry *e = calloc(max ? max : 1, sizeof *e);
	if (!e)
		return -ENOMEM;
	ssize_t n;
	do {
		n = c->l->_ibv_query_gid_table(c->c, e, max, 0, sizeof *e);
	} while (n == -EINTR);
	for (ssize_t i = 0; i < n; i++) {
		out[i] = (struct sv_gid){.index = e[i].gid_index, .port = e[i].port_num, .type = e[i].gid_type, .interface = e[i].ndev_ifindex};
		memcpy(out[i].address, &e[i].gid, sizeof out[i].address);
	}
	free(e);
	return (int)n;
}

int sv_events_fd(struct sv_context *c) { return c->c->async_fd; }

int sv_event_take(struct sv_context *c, int *event)
{
	struct ibv_async_event e;
	do {
		errno = 0;
		if (!c->l->ibv_get_async_event(c->c, &e))
			break;
		if (errno != EINTR)
			return sv_failed();
	} while (1);
	switch (e.event_type) {
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_LID_CHANGE:
		*event = SV_EVENT_PORT;
		break;
	case IBV_EVENT_DEVICE_FATAL:
		*event = SV_EVENT_FATAL;
		break;
	default:
		*event = SV_EVENT_OTHER;
	}
	/* At once: an object is not destroyed before its events are given back. */
	c->l->ibv_ack_async_event(&e);
	return 0;
}
