//go:build verbs && cgo && linux

#include "library.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

/* What the Go side knows as numbers: codes.go has all statuses in this order. */
_Static_assert(IBV_WC_SUCCESS == 0 && IBV_WC_WR_FLUSH_ERR == 5 && IBV_WC_LOC_ACCESS_ERR == 8 && IBV_WC_REM_INV_REQ_ERR == 9 &&
		       IBV_WC_REM_ACCESS_ERR == 10 && IBV_WC_RETRY_EXC_ERR == 12 && IBV_WC_RNR_RETRY_EXC_ERR == 13 &&
		       IBV_WC_RESP_TIMEOUT_ERR == 20 && IBV_WC_GENERAL_ERR == 21,
	"statuses of completions");

struct sv_pair {
	struct sv_library *l;
	struct ibv_qp *qp;
	struct ibv_comp_channel *channels[2];
	struct ibv_cq *queues[2];
	/* Work requests of one call, used by one poster at a time. */
	struct ibv_send_wr *writes;
	struct ibv_sge *pieces;
};

/* What is left when there is no queue pair (any more). A completion queue that cannot be
 * destroyed is left behind: it moves no bytes. */
static void sv_pair_free(struct sv_pair *p)
{
	for (int i = 0; i < 2; i++) {
		int rc = 0;
		if (p->queues[i])
			while ((rc = p->l->ibv_destroy_cq(p->queues[i])) == EINTR)
				;
		if (!rc && p->channels[i])
			p->l->ibv_destroy_comp_channel(p->channels[i]);
	}
	free(p->writes);
	free(p->pieces);
	free(p);
}

static int sv_queue_open(struct sv_pair *p, struct ibv_context *c, int i, uint32_t room)
{
	do {
		errno = 0;
		p->channels[i] = p->l->ibv_create_comp_channel(c);
	} while (!p->channels[i] && errno == EINTR);
	if (!p->channels[i])
		return sv_failed();
	int rc = sv_never_block(p->channels[i]->fd);
	if (rc)
		return rc;
	do {
		errno = 0;
		p->queues[i] = p->l->ibv_create_cq(c, (int)room, NULL, p->channels[i], 0);
	} while (!p->queues[i] && errno == EINTR);
	return p->queues[i] ? 0 : sv_failed();
}

static int sv_modify(struct sv_pair *p, struct ibv_qp_attr *a, int mask)
{
	int rc;
	while ((rc = p->l->ibv_modify_qp(p->qp, a, mask)) == EINTR)
		;
	return rc;
}

static int sv_pair_make(struct sv_pair *p, struct sv_context *c, uint8_t port, uint32_t sends, uint32_t receives, int remote_write)
{
	int rc;
	p->writes = calloc(sends, sizeof *p->writes);
	p->pieces = calloc(sends, sizeof *p->pieces);
	if (!p->writes || !p->pieces)
		return ENOMEM;
	if ((rc = sv_queue_open(p, c->c, SV_SENDS, sends)) || (rc = sv_queue_open(p, c->c, SV_RECEIVES, receives)))
		return rc;
	struct ibv_qp_init_attr a = {
		.send_cq = p->queues[SV_SENDS],
		.recv_cq = p->queues[SV_RECEIVES],
		.cap = {.max_send_wr = sends, .max_recv_wr = receives, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = SV_INLINE_BYTES},
		.qp_type = IBV_QPT_RC,
	};
	do {
		errno = 0;
		p->qp = p->l->ibv_create_qp(c->domain, &a);
	} while (!p->qp && errno == EINTR);
	if (!p->qp)
		return sv_failed();
	struct ibv_qp_attr init = {
		.qp_state = IBV_QPS_INIT,
		.port_num = port,
		.qp_access_flags = remote_write ? IBV_ACCESS_REMOTE_WRITE : 0,
	};
	return sv_modify(p, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

int sv_pair_open(struct sv_context *c, uint8_t port, uint32_t sends, uint32_t receives, int remote_write, struct sv_pair **out, uint32_t *number)
{
	struct sv_pair *p = calloc(1, sizeof *p);
	if (!p)
		return ENOMEM;
	p->l = c->l;
	int rc = sv_pair_make(p, c, port, sends, receives, remote_write);
	if (rc) {
		if (p->qp)
			sv_pair_close(p); /* was never connected: left behind if it cannot be destroyed */
		else
			sv_pair_free(p);
		return rc;
	}
	*number = p->qp->qp_num;
	*out = p;
	return 0;
}

int sv_pair_close(struct sv_pair *p)
{
	int rc;
	while ((rc = p->l->ibv_destroy_qp(p->qp)) == EINTR)
		;
	if (rc)
		return rc;
	sv_pair_free(p);
	return 0;
}

int sv_pair_connect(struct sv_pair *p, const struct sv_path *path)
{
	enum ibv_mtu mtu = IBV_MTU_256;
	while (mtu < IBV_MTU_4096 && 128u << (mtu + 1) <= path->mtu_bytes)
		mtu++;
	struct ibv_qp_attr receive = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = mtu,
		.dest_qp_num = path->number,
		.rq_psn = path->packet_remote,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = {.dlid = path->lid, .sl = path->service_level, .port_num = path->port, .is_global = path->global},
	};
	if (path->global) {
		receive.ah_attr.grh = (struct ibv_global_route){
			.sgid_index = (uint8_t)path->gid_index_local,
			.hop_limit = path->hop_limit,
			.traffic_class = path->traffic_class,
		};
		memcpy(&receive.ah_attr.grh.dgid, path->gid, sizeof path->gid);
	}
	int rc = sv_modify(p, &receive,
		IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	if (rc)
		return rc;
	/* No retry for a missing receive: they are posted before anybody asks for a write. */
	struct ibv_qp_attr send = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = path->packet_local,
		.timeout = path->timeout,
		.retry_cnt = path->retries,
		.rnr_retry = 0,
		.max_rd_atomic = 1,
	};
	return sv_modify(p, &send,
		IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
}

int sv_pair_fail(struct sv_pair *p)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_ERR};
	return sv_modify(p, &a, IBV_QP_STATE);
}

int sv_post_writes(struct sv_pair *p, const struct sv_write *list, uint32_t count, uint64_t number, int *posted)
{
	for (uint32_t i = 0; i < count; i++) {
		const struct sv_write *w = &list[i];
		p->pieces[i] = (struct ibv_sge){
			.addr = w->is_inline ? (uintptr_t)w->data : w->source,
			.length = w->bytes,
			.lkey = w->is_inline ? 0 : w->source_key,
		};
		p->writes[i] = (struct ibv_send_wr){
			.wr_id = number,
			.next = i + 1 < count ? &p->writes[i + 1] : NULL,
			.sg_list = &p->pieces[i],
			.num_sge = w->bytes ? 1 : 0,
			.opcode = w->notify ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE,
			.send_flags = (i + 1 == count ? IBV_SEND_SIGNALED : 0u) | (w->is_inline && w->bytes ? IBV_SEND_INLINE : 0u),
			.imm_data = htonl(w->immediate),
			.wr.rdma = {.remote_addr = w->target, .rkey = w->target_key},
		};
	}
	struct ibv_send_wr *bad = NULL;
	int rc = ibv_post_send(p->qp, p->writes, &bad);
	*posted = !rc ? (int)count : bad == p->writes ? 0 : -1;
	return rc;
}

int sv_post_receives(struct sv_pair *p, uint32_t count)
{
	struct ibv_recv_wr list[32], *bad;
	memset(list, 0, sizeof list);
	while (count > 0) {
		uint32_t n = count < 32 ? count : 32;
		for (uint32_t i = 0; i < n; i++)
			list[i].next = i + 1 < n ? &list[i + 1] : NULL;
		int rc = ibv_post_recv(p->qp, list, &bad);
		if (rc)
			return rc;
		count -= n;
	}
	return 0;
}

int sv_poll(struct sv_pair *p, int queue, struct sv_done *out, int max)
{
	struct ibv_wc list[32];
	int n = ibv_poll_cq(p->queues[queue], max < 32 ? max : 32, list);
	for (int i = 0; i < n; i++) {
		out[i] = (struct sv_done){.number = list[i].wr_id, .status = list[i].status};
		if (list[i].status == IBV_WC_SUCCESS && (list[i].wc_flags & IBV_WC_WITH_IMM)) {
			out[i].has_immediate = 1;
			out[i].immediate = ntohl(list[i].imm_data);
		}
	}
	return n;
}

int sv_arm(struct sv_pair *p, int queue)
{
	struct ibv_cq *from;
	void *unused;
	unsigned int taken = 0;
	for (;;) {
		errno = 0;
		if (!p->l->ibv_get_cq_event(p->channels[queue], &from, &unused))
			taken++;
		else if (errno != EINTR)
			break;
	}
	int rc = errno == EAGAIN ? 0 : sv_failed();
	if (taken)
		p->l->ibv_ack_cq_events(p->queues[queue], taken);
	return rc ? rc : ibv_req_notify_cq(p->queues[queue], 0);
}

int sv_channel_fd(struct sv_pair *p, int queue) { return p->channels[queue]->fd; }
