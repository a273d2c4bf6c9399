#include "accrue/memory/shard_scope.h"

#include <ATen/EmptyTensor.h>

#include <atomic>
#include <utility>
#include <vector>

#include "accrue/core/error.h"
#include "accrue/memory/caching_allocator.h"
#include "accrue/memory/filled_with_zeros.h"
#include "memory/shard_blocks.h"
#include "memory/shard_memory.h"
#include "memory/size_class.h"

namespace accrue::memory {
namespace {

/// Smaller tensors are whole on each rank: all of a model's biases and norms are some megabytes.
constexpr std::size_t kSmallestDividedBytes = kSmallestCachedBytes;

/// The allocator is one for the process, and so is the mapping. It stays after the first scope,
/// since tensors may outlive theirs.
std::atomic<ShardMemory*> mapping{nullptr};
std::atomic<bool> scope_exists{false};
/// Of the scope that exists; set before anything is made in it.
RankSlice slice_of_scope;

std::vector<PageRange> pages_of(const ShardMemory& memory, std::span<const at::Tensor> tensors) {
  std::vector<PageRange> ranges;
  for (const at::Tensor& tensor : tensors) {
    if (!is_in_shard_scope(tensor)) continue;
    const std::size_t bytes =
        at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(), tensor.itemsize());
    ranges.push_back(memory.range_of(tensor.const_data_ptr(), bytes));
  }
  return merged(std::move(ranges));
}

std::span<const std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
}

void keep_elements(const at::Tensor& tensor, const ElementRange& kept) {
  const auto in_bytes = [&](std::int64_t elements) {
    return static_cast<std::size_t>(elements) * tensor.element_size();
  };
  const std::span<const std::byte> bytes = bytes_of(tensor);
  mapping.load()->keep_part(bytes, bytes.subspan(in_bytes(kept.begin), in_bytes(kept.elements)));
}

}  // namespace

ShardScope::ShardScope(const RankSlice& slice) {
  constexpr const char* operation = "divide a model among ranks (dist.shard = \"all\")";
  if (!caching_allocator_installed())
    throw usage_error(operation, "accrue's allocator", "a program without it",
                      "install_caching_allocator() in main()");
  if (scope_exists.exchange(true))
    throw usage_error(operation, "one run at a time in a process", "a second one",
                      "another process for each rank");
  try {
    if (mapping == nullptr) mapping = new ShardMemory;
    slice_of_scope = slice;
  } catch (...) {
    scope_exists = false;
    throw;
  }
}

ShardScope::~ShardScope() { scope_exists = false; }

bool has_shard_scope() { return scope_exists; }

bool is_in_shard_scope(const at::Tensor& tensor) {
  const ShardMemory* const memory = mapping;
  return memory != nullptr && tensor.defined() && tensor.device().is_cpu() &&
         tensor.layout() == at::kStrided && tensor.has_storage() && tensor.numel() > 0 &&
         memory->holds(tensor.const_data_ptr());
}

void divide_by(const RankSlice& slice) { slice_of_scope = slice; }

void keep_part(const at::Tensor& tensor, std::size_t index) {
  if (!has_shard_scope() || slice_of_scope == RankSlice{} || !is_in_shard_scope(tensor)) return;
  keep_elements(tensor, element_range_of(tensor.numel(), index, slice_of_scope));
}

FilledWithZeros::FilledWithZeros(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> whole;
  for (const at::Tensor& tensor : tensors) {
    if (!is_kept_in_part(tensor)) continue;
    filled_.push_back({tensor, kept_part(tensor)});
    whole.push_back(tensor);
  }
  keep_in_scope(whole, whole);
}

FilledWithZeros::~FilledWithZeros() {
  for (const auto& [tensor, kept] : filled_) keep_elements(tensor, kept);
}

ElementRange kept_part(const at::Tensor& tensor) {
  if (!is_in_shard_scope(tensor)) return {0, tensor.numel()};
  const std::span<const std::byte> bytes = bytes_of(tensor), kept = mapping.load()->kept_of(bytes);
  const auto in_elements = [&](std::size_t count) {
    return static_cast<std::int64_t>(count / tensor.element_size());
  };
  return {in_elements(static_cast<std::size_t>(kept.data() - bytes.data())),
          in_elements(kept.size())};
}

void keep_in_scope(std::span<const at::Tensor> divided, std::span<const at::Tensor> kept) {
  ShardMemory* const memory = mapping;
  if (memory == nullptr) return;
  memory->keep_only(pages_of(*memory, divided), pages_of(*memory, kept));
}

ShardUsage shard_usage() {
  const ShardMemory* const memory = mapping;
  return memory == nullptr ? ShardUsage{} : memory->usage();
}

void restart_shard_peak() {
  if (ShardMemory* const memory = mapping) memory->restart_peak();
}

void* take_in_shard_scope(std::size_t bytes, MemoryTag tag) {
  const bool is_divided = tag == MemoryTag::parameters || tag == MemoryTag::gradients;
  if (!is_divided || bytes < kSmallestDividedBytes || !scope_exists) return nullptr;
  ShardMemory* const memory = mapping;
  return memory == nullptr ? nullptr : memory->take(bytes);
}

bool give_back_to_shard_scope(void* data) {
  ShardMemory* const memory = mapping;
  return memory != nullptr && memory->give_back(data);
}

}  // namespace accrue::memory
