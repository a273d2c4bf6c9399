#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <span>

namespace accrue::memory {

/// State that is larger than memory. From this call on accrue's allocator places tensors of a
/// run's state (MemoryTag::parameters, packed, gradients and optimizer; from 64 KiB) in a file in
/// `folder`, which has no name and vanishes with the process. Such tensors are ordinary tensors:
/// their memory is a shared mapping of the file, so that every access finds its values, and the
/// calls below only decide what is in memory when. They do not count in the budget; what of them
/// is in memory counts as memory outside tensors.
///
/// Throws a usage Error if the allocator is not installed, if no file can be made in the folder,
/// or if the folder lies in memory itself (tmpfs).
void offload_state(const std::filesystem::path& folder);
/// Places new tensors in memory again. Those in the file stay there.
void stop_offloading();
/// Whether offload_state() is in effect.
bool is_offloading();
/// Whether the tensor's memory lies in the file.
bool is_offloaded(const at::Tensor& tensor);

/// Says which part of the offloaded state is needed: `now` is read first, then `next`, and all
/// else is written back and leaves memory. Both happen in the background; an access to values that
/// are not there yet waits for them. Tensors that are not offloaded or undefined are ignored.
void keep_in_memory(std::span<const at::Tensor> now, std::span<const at::Tensor> next = {});
/// Writes everything back and waits until it has left memory.
void leave_memory();
/// The values of `tensor` are not needed any more: it reads as zeros, and nothing of it is written
/// or read. For a tensor that is not offloaded nothing happens, and its values stay.
void discard(const at::Tensor& tensor);

}  // namespace accrue::memory
