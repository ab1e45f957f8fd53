/* SPDX-License-Identifier: GPL-2.0 */
/* Inside the transmit engine: send.c and respond.c. */
#ifndef ZIW_TX_H
#define ZIW_TX_H

#include "batch.h"

enum ziw_tx_result {
	ZIW_TX_BUILT,	/* an FPDU was added to the batch, or a WQE was done without */
	ZIW_TX_FULL,	/* the batch has to go first */
	ZIW_TX_WAIT,	/* something else has to happen first */
	ZIW_TX_IDLE,	/* nothing to send */
	ZIW_TX_NOMEM,	/* no memory: try again later */
};

u32 ziw_tx_max_payload(const struct ziw_conn *conn, bool tagged);
enum ziw_tx_result ziw_tx_build_short(struct ziw_conn *conn,
				      const struct ziw_ddp_hdr *hdr,
				      const void *data, unsigned int len);
int ziw_tx_add_region(struct ziw_fpdu *fpdu, const struct ziw_mr *mr, u64 addr,
		      u32 len, bool splice, bool *spliced);
enum ziw_tx_result ziw_tx_build_response(struct ziw_conn *conn);

#endif /* ZIW_TX_H */
