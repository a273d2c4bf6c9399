#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>

namespace accrue::memory {

/// Whether `error` says that memory ran out: libtorch's OutOfMemoryError, or std::bad_alloc.
bool is_out_of_memory(const std::exception& error);

/// Bytes in tensors that were needed at least, by the allocation that failed; 0 where it was not a
/// budget that refused it.
std::int64_t least_need(const std::exception& error);

/// Why memory ran out, for people: by how much it was short of which budget, else the cause.
std::string why_out_of_memory(const std::exception& error);

/// What to try with a budget that is too small: one that is `enough`, where that is known.
std::string larger_budget(std::optional<std::int64_t> enough);

}  // namespace accrue::memory
