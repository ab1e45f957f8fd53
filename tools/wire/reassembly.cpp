// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "reassembly.h"

#include <arpa/inet.h>

#include <algorithm>

namespace wire {

std::string TcpEnd::text() const
{
	static const std::array<uint8_t, 12> mapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
	std::array<char, INET6_ADDRSTRLEN> name{};

	if (std::equal(mapped.begin(), mapped.end(), address.begin())) {
		inet_ntop(AF_INET, address.data() + 12, name.data(), name.size());
		return std::string(name.data()) + ":" + std::to_string(port);
	}
	inet_ntop(AF_INET6, address.data(), name.data(), name.size());
	return "[" + std::string(name.data()) + "]:" + std::to_string(port);
}

/* --- packets --- */

namespace {

constexpr unsigned protocol_tcp = 6;
constexpr unsigned type_ipv4 = 0x0800, type_ipv6 = 0x86dd;

/* The IP packet in a link's frame; empty if there is none. */
View ip_packet(const Packet &packet)
{
	View data(packet.data);
	unsigned type;

	switch (packet.link_type) {
	case 1: {
		/* Ethernet, with any number of VLAN tags */
		std::size_t at = 12;
		for (;;) {
			type = get16(data, at);
			at += 2;
			if (type != 0x8100 && type != 0x88a8)
				break;
			at += 2;
		}
		return type == type_ipv4 || type == type_ipv6 ? rest(data, at) : View();
	}
	case 113:
		/* Linux cooked */
		type = get16(data, 14);
		return type == type_ipv4 || type == type_ipv6 ? rest(data, 16) : View();
	case 276:
		/* Linux cooked, version 2 */
		type = get16(data, 0);
		return type == type_ipv4 || type == type_ipv6 ? rest(data, 20) : View();
	case 0:
		/* BSD loopback */
		return rest(data, 4);
	case 12:
	case 14:
	case 101:
	case 228:
	case 229:
		/* IP itself */
		return data;
	default:
		return {};
	}
}

std::array<uint8_t, 16> mapped(View four)
{
	std::array<uint8_t, 16> address{};

	address[10] = address[11] = 0xff;
	std::copy(four.begin(), four.end(), address.begin() + 12);
	return address;
}

struct IpPayload {
	std::array<uint8_t, 16> from{}, to{};
	View bytes;
	std::size_t missing = 0;
};

/* The part of an IP packet that its length field says is there. */
std::optional<IpPayload> clip(IpPayload ip, View packet, std::size_t header, std::size_t total)
{
	if (total < header)
		return std::nullopt;
	auto there = std::min(total, packet.size());
	if (there < header)
		return std::nullopt;
	ip.bytes = packet.subspan(header, there - header);
	ip.missing = total - there;
	return ip;
}

std::optional<IpPayload> parse_ipv4(View packet)
{
	IpPayload ip;
	std::size_t header = (get8(packet, 0) & 15u) * 4u, total = get16(packet, 2);

	/* Fragments are not put together: iWARP's packets are none. */
	if (header < 20 || get8(packet, 9) != protocol_tcp || get16(packet, 6) & 0x3fff)
		return std::nullopt;
	auto from = part(packet, 12, 4), to = part(packet, 16, 4);
	ip.from = mapped(from);
	ip.to = mapped(to);
	/* With segmentation offload a capture may say 0. */
	return clip(ip, packet, header, total ? total : packet.size());
}

std::optional<IpPayload> parse_ipv6(View packet)
{
	IpPayload ip;
	std::size_t length = get16(packet, 4), header = 40;
	unsigned next = get8(packet, 6);

	std::copy_n(part(packet, 8, 16).begin(), 16, ip.from.begin());
	std::copy_n(part(packet, 24, 16).begin(), 16, ip.to.begin());
	/* Hop-by-hop, routing and destination options. */
	while (next == 0 || next == 43 || next == 60) {
		next = get8(packet, header);
		header += (get8(packet, header + 1) + 1u) * 8u;
	}
	if (next != protocol_tcp)
		return std::nullopt;
	return clip(ip, packet, header, length ? 40 + length : packet.size());
}

std::optional<TcpSegment> parse(const Packet &packet)
{
	auto bytes = ip_packet(packet);

	if (bytes.empty())
		return std::nullopt;
	auto version = get8(bytes, 0) >> 4;
	auto ip = version == 4   ? parse_ipv4(bytes)
		  : version == 6 ? parse_ipv6(bytes)
				 : std::nullopt;
	if (!ip)
		return std::nullopt;
	TcpSegment tcp;
	tcp.from = {ip->from, get16(ip->bytes, 0)};
	tcp.to = {ip->to, get16(ip->bytes, 2)};
	tcp.sequence = get32(ip->bytes, 4);
	std::size_t header = (get8(ip->bytes, 12) >> 4) * 4u;
	auto flags = get8(ip->bytes, 13);
	if (header < 20)
		return std::nullopt;
	tcp.fin = flags & 1;
	tcp.syn = flags & 2;
	tcp.rst = flags & 4;
	tcp.payload = rest(ip->bytes, header);
	tcp.missing = ip->missing;
	return tcp;
}

} // namespace

std::optional<TcpSegment> parse_packet(const Packet &packet)
{
	try {
		return parse(packet);
	} catch (const std::out_of_range &) {
		return std::nullopt;
	}
}

/* --- streams --- */

namespace {

/* What one waiting segment costs, besides its octets. */
constexpr std::size_t overhead = 128;

} // namespace

/* The number nearest to what is next. */
uint64_t TcpStream::unwrap(uint32_t sequence) const
{
	auto distance = static_cast<int32_t>(sequence - static_cast<uint32_t>(next_));

	return next_ + static_cast<uint64_t>(static_cast<int64_t>(distance));
}

void TcpStream::deliver(std::vector<Delivery> &to)
{
	while (!waiting_.empty() && waiting_.begin()->first <= next_) {
		auto [at, bytes] = std::move(*waiting_.begin());
		waiting_.erase(waiting_.begin());
		held_ -= bytes.size() + overhead;
		auto old = std::min<uint64_t>(next_ - at, bytes.size());
		if (old == bytes.size())
			continue;
		Delivery delivery;
		delivery.segment_start = old == 0;
		delivery.bytes = copy(rest(bytes, static_cast<std::size_t>(old)));
		next_ += delivery.bytes.size();
		to.push_back(std::move(delivery));
	}
}

std::vector<TcpStream::Delivery> TcpStream::add(const TcpSegment &segment)
{
	std::vector<Delivery> deliveries;

	if (!started_ || segment.syn) {
		/* A second SYN is repeated, or begins the port's next use: the owner knows which.
		 */
		if (started_)
			return deliveries;
		started_ = true;
		from_start_ = segment.syn;
		next_ = (uint64_t(1) << 32) + segment.sequence + (segment.syn ? 1 : 0);
	}
	auto at = unwrap(segment.sequence + (segment.syn ? 1 : 0));
	auto end = at + segment.payload.size() + segment.missing;
	if (segment.fin) {
		fin_ = true;
		fin_at_ = end;
	}
	if (segment.payload.empty())
		return deliveries;
	if (at + segment.payload.size() <= next_) {
		retransmitted_ += segment.payload.size();
		return deliveries;
	}
	out_of_order_ += at > next_;
	auto [found, made] = waiting_.try_emplace(at);
	auto &slot = found->second;
	held_ += made ? overhead : 0;
	if (slot.size() < segment.payload.size()) {
		held_ += segment.payload.size() - slot.size();
		slot = copy(segment.payload);
	} else {
		retransmitted_ += segment.payload.size();
	}
	deliver(deliveries);
	while (held_ > patience && !waiting_.empty()) {
		auto lost = waiting_.begin()->first - next_;
		auto before = deliveries.size();
		next_ += lost;
		deliver(deliveries);
		if (deliveries.size() > before)
			deliveries[before].lost = lost;
	}
	return deliveries;
}

std::vector<TcpStream::Delivery> TcpStream::flush()
{
	std::vector<Delivery> deliveries;

	while (!waiting_.empty()) {
		auto lost = waiting_.begin()->first - next_;
		auto before = deliveries.size();
		next_ += lost;
		deliver(deliveries);
		if (deliveries.size() > before)
			deliveries[before].lost = lost;
	}
	return deliveries;
}

} // namespace wire
