/* SPDX-License-Identifier: GPL-2.0 */
#ifndef ZIW_BATCH_H
#define ZIW_BATCH_H

#include "conn.h"

/**
 * struct ziw_fpdu - an FPDU under construction
 * @batch: where it goes
 * @crc_on: compute the CRC
 * @kernel: the payload is a kernel consumer's
 * @crc: so far
 * @ulpdu: length of its ULPDU
 * @payload: bytes after its DDP header
 * @in_place: of these, referenced where they lie
 * @pos: bytes of it in the stream, markers included
 * @run: arena that is being written to, and is not in the batch yet
 * @run_len: bytes written there
 * @run_room: bytes that may be
 * @run_crc: bytes of it that are in @crc, or need not be
 * @run_page: its page
 * @run_off: its offset from there
 * @start_num: fragments in the batch before it
 * @start_len: length of the last of these, which may have grown since
 * @start_bytes: bytes in the batch before it
 * @start_to_marker: the batch's @to_marker before it
 */
struct ziw_fpdu {
	struct ziw_batch	*batch;
	bool			crc_on;
	bool			kernel;
	u32			crc;
	unsigned int		ulpdu;
	unsigned int		payload;
	unsigned int		in_place;
	unsigned int		pos;
	u8			*run;
	unsigned int		run_len;
	unsigned int		run_room;
	unsigned int		run_crc;
	struct page		*run_page;
	unsigned int		run_off;
	unsigned int		start_num;
	unsigned int		start_len;
	unsigned int		start_bytes;
	unsigned int		start_to_marker;
};

void *ziw_arena_get(unsigned int min, unsigned int want, unsigned int *len,
		    struct page **page, unsigned int *off);
void ziw_arena_commit(unsigned int len);
void ziw_arena_lock(void);
void ziw_arena_unlock(void);

bool ziw_batch_has_room(const struct ziw_batch *batch, unsigned int payload,
			unsigned int pieces);
int ziw_fpdu_begin(struct ziw_fpdu *fpdu, struct ziw_batch *batch, bool crc_on,
		   const struct ziw_ddp_hdr *hdr, unsigned int payload);
int ziw_fpdu_add(struct ziw_fpdu *fpdu, const void *data, unsigned int len);
int ziw_fpdu_splice(struct ziw_fpdu *fpdu, const void *data, unsigned int len,
		    bool *spliced);
int ziw_fpdu_end(struct ziw_fpdu *fpdu);
void ziw_fpdu_cancel(struct ziw_fpdu *fpdu);

#endif /* ZIW_BATCH_H */
