#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>

namespace accrue::memory {

/// Whether `error` means that memory ran out: libtorch's OutOfMemoryError, or std::bad_alloc.
bool is_out_of_memory(const std::exception& error);

/// The least bytes in tensors that the failed allocation needed; 0 if no budget refused it.
std::int64_t least_need(const std::exception& error);

/// The reason why memory ran out, for people: the bytes by which it exceeded which budget, or the
/// cause if no budget refused it.
std::string why_out_of_memory(const std::exception& error);

/// The advice if a budget is too small: `enough` bytes, if that is known.
std::string larger_budget(std::optional<std::int64_t> enough);

}  // namespace accrue::memory
