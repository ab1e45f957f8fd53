/* SPDX-License-Identifier: GPL-2.0 */
/* Between the stream (receive.c) and the operations in it (deliver.c). */
#ifndef ZIW_RX_H
#define ZIW_RX_H

#include "rx_queue.h"
#include "conn.h"

/**
 * struct ziw_rx_fpdu - the FPDU at hand
 * @conn: connection
 * @hdr: decoded DDP header
 * @raw: the header as received, for a Terminate Message
 * @ulpdu: length of the ULPDU
 * @payload: bytes after the DDP header
 * @data: where they begin
 */
struct ziw_rx_fpdu {
	struct ziw_conn		*conn;
	struct ziw_ddp_hdr	hdr;
	u8			raw[DDP_MAX_LEN];
	u32			ulpdu;
	u32			payload;
	struct ziw_cursor	data;
};

void ziw_rx_terminate(struct ziw_conn *conn, const struct ziw_terminate *term,
		      enum ib_event_type event);
void ziw_rx_local_fault(struct ziw_conn *conn, u16 code);
void ziw_rx_dispatch(struct ziw_rx_fpdu *fpdu);

#endif /* ZIW_RX_H */
