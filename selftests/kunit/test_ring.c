// SPDX-License-Identifier: GPL-2.0
/* The kernel's side of the shared rings, ring.h. No device: the rings are plain memory. */
#include "fixture.h"

/* Where the indices begin: they run freely through 32 bits, so each test passes the end too. */
static const u32 starts[] = { 0, 1, 0x7ffffffe, 0x80000000, 0xfffffffd, 0xffffffff };
static const u32 sizes[] = { 1, 2, 4, 64 };

/* A ring of an SQ, RQ or SRQ whose producer and consumer are both at @start. */
static void ring_init(struct kunit *test, struct ziw_ring *ring, u32 entries, u32 start)
{
	memset(ring, 0, sizeof(*ring));
	ring->stride = sizeof(u64);
	ring->mask = entries - 1;
	ring->hdr = kunit_kzalloc(test, sizeof(*ring->hdr) + entries * ring->stride, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, ring->hdr);
	ring->slots = ring->hdr + 1;
	ring->index = start;
	ring->post = start;
	ring->hdr->prod = start;
	ring->hdr->cons = start;
}

static void with_each_ring(struct kunit *test, void (*check)(struct kunit *, struct ziw_ring *))
{
	struct ziw_ring ring;
	int i, j;

	for (i = 0; i < ARRAY_SIZE(sizes); i++)
		for (j = 0; j < ARRAY_SIZE(starts); j++) {
			ring_init(test, &ring, sizes[i], starts[j]);
			check(test, &ring);
			kunit_kfree(test, ring.hdr);
		}
}

static void check_empty(struct kunit *test, struct ziw_ring *ring)
{
	KUNIT_EXPECT_EQ(test, ziw_ring_filled(ring, ring->index), 0);
	KUNIT_EXPECT_TRUE(test, ziw_ring_has_room(ring));
}

static void ring_empty(struct kunit *test)
{
	with_each_ring(test, check_empty);
}

static void check_full(struct kunit *test, struct ziw_ring *ring)
{
	u32 entries = ring->mask + 1, i;

	for (i = 0; i < entries; i++) {
		KUNIT_EXPECT_TRUE_MSG(test, ziw_ring_has_room(ring), "%u of %u", i, entries);
		ziw_ring_publish(ring);
		KUNIT_EXPECT_EQ(test, ziw_ring_filled(ring, ring->index), i + 1);
	}
	KUNIT_EXPECT_FALSE_MSG(test, ziw_ring_has_room(ring), "%u entries", entries);

	ziw_ring_consume(ring, ring->index + 1);
	KUNIT_EXPECT_TRUE_MSG(test, ziw_ring_has_room(ring), "%u entries", entries);
	KUNIT_EXPECT_EQ(test, ziw_ring_filled(ring, ring->index), entries - 1);
}

static void ring_full(struct kunit *test)
{
	with_each_ring(test, check_full);
}

/* What was put in comes out in order, many times around. */
static void check_order(struct kunit *test, struct ziw_ring *ring)
{
	u32 entries = ring->mask + 1, round, i;
	u64 in = 0, out = 0;

	for (round = 0; round < 3 * entries + 8; round++) {
		for (i = 0; i <= round % entries && ziw_ring_has_room(ring); i++) {
			*(u64 *)ziw_ring_slot(ring, ring->post) = in++;
			ziw_ring_publish(ring);
		}
		while (ziw_ring_filled(ring, ring->index)) {
			KUNIT_EXPECT_EQ(test, *(u64 *)ziw_ring_slot(ring, ring->index), out++);
			ziw_ring_consume(ring, ring->index + 1);
		}
	}
	KUNIT_EXPECT_EQ(test, in, out);
	KUNIT_EXPECT_EQ(test, ring->hdr->cons, ring->hdr->prod);
}

static void ring_order(struct kunit *test)
{
	with_each_ring(test, check_order);
}

static void check_slots(struct kunit *test, struct ziw_ring *ring)
{
	static const u32 indices[] = { 0, 1, 63, 64, 0x7fffffff, 0x80000000, 0xffffffff };
	int i;

	for (i = 0; i < ARRAY_SIZE(indices); i++) {
		size_t off = ziw_ring_slot(ring, indices[i]) - ring->slots;

		KUNIT_EXPECT_EQ(test, off % ring->stride, 0);
		KUNIT_EXPECT_LE(test, off, (size_t)ring->mask * ring->stride);
		/* The next index is the next slot, or slot 0. */
		off += ring->stride;
		off %= (size_t)(ring->mask + 1) * ring->stride;
		KUNIT_EXPECT_PTR_EQ(test, ziw_ring_slot(ring, indices[i] + 1), ring->slots + off);
	}
}

static void ring_slots(struct kunit *test)
{
	with_each_ring(test, check_slots);
}

/* User space may write any number as prod. Only those in [from, cons + entries] mean slots. */
static void check_lie(struct kunit *test, struct ziw_ring *ring)
{
	u32 entries = ring->mask + 1, taken, i;

	for (taken = 0; taken <= entries; taken++) {
		u32 from = ring->index + taken, left = entries - taken;
		const struct { u32 prod, filled; } rows[] = {
			{ from, 0 },
			{ from + left, left },
			{ from + left + 1, 0 },
			{ from + left + 2, 0 },
			{ from + 2 * entries + 1, 0 },
			{ from - 1, 0 },
			{ from - entries - 1, 0 },
			{ from + 0x7fffffff, 0 },
			{ from + 0x80000000, 0 },
			{ from + 0xffffffff, 0 },
		};

		for (i = 0; i < ARRAY_SIZE(rows); i++) {
			ring->hdr->prod = rows[i].prod;
			KUNIT_EXPECT_EQ_MSG(test, ziw_ring_filled(ring, from), rows[i].filled,
					    "%u entries, cons %#x, from %#x, prod %#x", entries,
					    ring->index, from, rows[i].prod);
		}
	}
}

static void ring_lie(struct kunit *test)
{
	with_each_ring(test, check_lie);
}

/* Whatever user space writes into cons is not what the kernel goes by. */
static void check_own_index(struct kunit *test, struct ziw_ring *ring)
{
	u32 index = ring->index;

	ziw_ring_publish(ring);
	ring->hdr->cons = 0x12345678;
	KUNIT_EXPECT_EQ(test, ziw_ring_filled(ring, index), 1);
	ziw_ring_consume(ring, index + 1);
	KUNIT_EXPECT_EQ(test, ring->hdr->cons, index + 1);
	KUNIT_EXPECT_EQ(test, ring->index, index + 1);
}

static void ring_own_index(struct kunit *test)
{
	with_each_ring(test, check_own_index);
}

static void check_doorbell(struct kunit *test, struct ziw_ring *ring)
{
	KUNIT_EXPECT_FALSE(test, ziw_ring_needs_doorbell(ring));
	KUNIT_EXPECT_FALSE(test, ziw_ring_idle(ring, ring->index));
	KUNIT_EXPECT_TRUE(test, ziw_ring_needs_doorbell(ring));
	ziw_ring_busy(ring);
	KUNIT_EXPECT_FALSE(test, ziw_ring_needs_doorbell(ring));

	/* What came before the flag was set is seen by the consumer itself. */
	ziw_ring_publish(ring);
	KUNIT_EXPECT_TRUE(test, ziw_ring_idle(ring, ring->index));
	KUNIT_EXPECT_FALSE(test, ziw_ring_idle(ring, ring->index + 1));
}

static void ring_doorbell(struct kunit *test)
{
	with_each_ring(test, check_doorbell);
}

static struct kunit_case cases[] = {
	PROPERTY(ring_empty, "an empty ring has nothing filled, and room"),
	PROPERTY(ring_full,
		 "a ring takes as many as it has slots, and one more when one was consumed"),
	PROPERTY(ring_order, "what goes in comes out once and in order, across the wrap"),
	PROPERTY(ring_slots, "every index names a slot of the ring, the next index the next slot"),
	PROPERTY(ring_lie, "a producer index beyond the ring counts as no slot at all"),
	PROPERTY(ring_own_index, "the consumer goes by its own index, not by the shared one"),
	PROPERTY(ring_doorbell, "a doorbell is asked for when idle; what came before is seen"),
	{}
};

struct kunit_suite ziw_ring_suite = {
	.name		= "ring",
	.test_cases	= cases,
};
