/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#pragma once

#include <ostream>

#include "session.h"

namespace bench {

/* What all rows have in common, and the names of the columns. */
void table_head(std::ostream &to, const Result &first);
void table_row(std::ostream &to, const Result &result);
void json(std::ostream &to, const std::vector<Result> &results);

} // namespace bench
