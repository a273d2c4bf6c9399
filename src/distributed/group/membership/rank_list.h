#pragma once

#include <cstdint>
#include <string>

namespace accrue::distributed {

/// "" and 0 -> "rank 0", and then 2 -> "rank 0, rank 2": for messages.
inline void append_rank(std::string& list, std::int64_t rank) {
  list += (list.empty() ? "rank " : ", rank ") + std::to_string(rank);
}

}  // namespace accrue::distributed
