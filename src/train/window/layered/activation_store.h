#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <memory>

namespace accrue::train {

/// Keeps a window's activations between passes, in memory or in a temporary file.
///
/// The file has no name, so it vanishes with the process in any case. A tensor in it is mapped
/// while a handle to it exists and then returned to the disk, so that stored tensors do not count
/// as resident memory.
class ActivationStore {
 public:
  /// An empty `folder` means memory. Throws a usage Error if no file can be made in the folder.
  explicit ActivationStore(const std::filesystem::path& folder = {});

  class Kept;
  /// Stores `tensor`, which must not be written to afterwards. Throws a runtime Error if the disk
  /// is full.
  Kept keep(const at::Tensor& tensor);

 private:
  class File;
  std::shared_ptr<File> file_;
};

class ActivationStore::Kept {
 public:
  Kept() = default;
  bool defined() const { return in_memory_.defined() || file_ != nullptr; }
  /// The tensor, undefined if nothing is stored. Writes to it stay private if it lies in a
  /// file.
  at::Tensor tensor() const;

 private:
  friend class ActivationStore;
  struct Region;
  at::Tensor in_memory_;
  std::shared_ptr<Region> file_;
};

}  // namespace accrue::train
