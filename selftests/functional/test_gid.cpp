// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The GID table: the MAC at index 0, the addresses of the interface after it. */
#include <arpa/inet.h>

#include <array>
#include <fstream>

#include "fixture.h"

namespace {

using Gid = std::array<uint8_t, 16>;

Gid gid_of(const std::string &address)
{
	Gid gid{};
	in_addr four;

	if (inet_pton(AF_INET, address.c_str(), &four) == 1) {
		gid[10] = gid[11] = 0xff;
		std::memcpy(&gid[12], &four, 4);
	} else if (inet_pton(AF_INET6, address.c_str(), gid.data()) != 1) {
		throw std::invalid_argument(address);
	}
	return gid;
}

class GidTest : public VerbsTest {
protected:
	void SetUp() override
	{
		ibv_port_attr port{};

		ASSERT_EQ(ibv_query_port(a.context(), 1, &port), 0);
		length = port.gid_tbl_len;
	}
	void TearDown() override
	{
		for (auto &address : added)
			a.shell("ip addr del " + address + " dev " + a.netdev() +
				" 2> /dev/null || :");
	}

	void add(const std::string &address)
	{
		auto nodad = address.find(':') == std::string::npos ? "" : " nodad";
		a.shell("ip addr add " + address + " dev " + a.netdev() + nodad);
		added.push_back(address);
	}
	void remove(const std::string &address)
	{
		a.shell("ip addr del " + address + " dev " + a.netdev());
	}

	Gid at(int index)
	{
		ibv_gid gid;

		verbs::check(ibv_query_gid(a.context(), 1, index, &gid), "ibv_query_gid");
		Gid copy;
		std::memcpy(copy.data(), gid.raw, copy.size());
		return copy;
	}
	/* -1: it is not there. */
	int find(const Gid &gid)
	{
		for (int i = 0; i < length; i++)
			if (at(i) == gid)
				return i;
		return -1;
	}
	bool comes(const std::string &address)
	{
		return verbs::eventually(soon, [&] { return find(gid_of(address)) > 0; });
	}
	bool goes(const std::string &address)
	{
		return verbs::eventually(soon, [&] { return find(gid_of(address)) < 0; });
	}

	int length = 0;
	std::vector<std::string> added;
};

TEST_F(GidTest, TheMacComesFirst)
{
	InNamespace in(a.ns());
	std::string mac;
	auto gid = at(0);

	std::ifstream("/sys/class/net/" + a.netdev() + "/address") >> mac;
	char text[32];
	std::snprintf(text, sizeof(text), "%02x:%02x:%02x:%02x:%02x:%02x", gid[0], gid[1], gid[2],
		      gid[3], gid[4], gid[5]);
	/* sysfs shows the network devices of the namespace that it was mounted in. */
	if (mac.empty())
		EXPECT_TRUE(gid[0] || gid[5]);
	else
		EXPECT_EQ(mac, text);
	for (unsigned i = 6; i < 16; i++)
		EXPECT_EQ(gid[i], 0);
}

TEST_F(GidTest, AddressesOfTheInterface)
{
	for (auto family : {Family::ipv4, Family::ipv6, Family::link_local}) {
		auto address = a.address(family);
		char text[INET6_ADDRSTRLEN];
		if (family == Family::ipv4)
			inet_ntop(AF_INET,
				  &reinterpret_cast<sockaddr_in *>(address.get())->sin_addr, text,
				  sizeof(text));
		else
			inet_ntop(AF_INET6,
				  &reinterpret_cast<sockaddr_in6 *>(address.get())->sin6_addr, text,
				  sizeof(text));
		EXPECT_TRUE(comes(text)) << text;
	}
}

TEST_F(GidTest, FollowsAddresses)
{
	auto own = gid_of("::");

	add("192.0.2.7/24");
	ASSERT_TRUE(comes("192.0.2.7"));
	int index = find(gid_of("192.0.2.7"));
	add("2001:db8::7/64");
	ASSERT_TRUE(comes("2001:db8::7"));
	/* What was there before keeps its place. */
	EXPECT_EQ(find(gid_of("192.0.2.7")), index);
	int second = find(gid_of("2001:db8::7"));
	remove("192.0.2.7/24");
	ASSERT_TRUE(goes("192.0.2.7"));
	EXPECT_EQ(at(index), own) << "a free place is all zeros";
	EXPECT_EQ(find(gid_of("2001:db8::7")), second);
	/* The next one takes the free place. */
	add("192.0.2.8/24");
	ASSERT_TRUE(comes("192.0.2.8"));
	EXPECT_EQ(find(gid_of("192.0.2.8")), index);
	remove("2001:db8::7/64");
	EXPECT_TRUE(goes("2001:db8::7"));
}

/* More addresses than the table holds: those that fit are there, and no harm is done. */
TEST_F(GidTest, MoreAddressesThanEntries)
{
	auto all = [&](const std::string &what) {
		a.shell("for i in $(seq " + std::to_string(length) + "); do ip addr " + what +
			" 198.51.100.$i/32 dev " + a.netdev() + "; done");
	};

	all("add");
	EXPECT_TRUE(comes("198.51.100.1"));
	EXPECT_TRUE(verbs::eventually(soon, [&] { return find(gid_of("::")) < 0; }));
	all("del");
	EXPECT_TRUE(verbs::eventually(soon, [&] {
		for (int i = 1; i <= length; i++)
			if (find(gid_of("198.51.100." + std::to_string(i))) >= 0)
				return false;
		return true;
	}));
}

/* Connections are made all the same, over old addresses and new ones. */
TEST_F(GidTest, RdmaCmGoesOn)
{
	for (int i = 0; i < 5; i++) {
		auto address = "203.0.113." + std::to_string(i + 1) + "/32";
		add(address);
		EXPECT_TRUE(comes(address.substr(0, address.find('/'))));
		auto pair = connected();
		synchronize(*pair.a, *pair.b);
		remove(address);
		EXPECT_TRUE(goes(address.substr(0, address.find('/'))));
	}
	added.clear();
}

TEST_F(GidTest, BeyondTheTable)
{
	ibv_gid gid;

	EXPECT_GT(length, 8);
	EXPECT_NE(ibv_query_gid(a.context(), 1, length, &gid), 0);
	EXPECT_NE(ibv_query_gid(a.context(), 1, -1, &gid), 0);
}

} // namespace
