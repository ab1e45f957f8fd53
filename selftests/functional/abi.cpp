// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "abi.h"

#include <dirent.h>
#include <unistd.h>

#include <fstream>
#include <string>

std::vector<int> doorbells()
{
	std::vector<int> list;
	DIR *dir = opendir("/proc/self/fd");

	while (auto *entry = readdir(dir)) {
		char target[64] = {};
		int fd = std::atoi(entry->d_name);
		if (readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1) > 0 &&
		    std::string(target).find("ziw_doorbell") != std::string::npos)
			list.push_back(fd);
	}
	closedir(dir);
	return list;
}

std::vector<uintptr_t> ring_mappings()
{
	std::ifstream maps("/proc/self/maps");
	std::vector<uintptr_t> list;
	std::string line;

	while (std::getline(maps, line))
		if (line.find("/dev/infiniband/uverbs") != std::string::npos)
			list.push_back(std::stoull(line, nullptr, 16));
	return list;
}
