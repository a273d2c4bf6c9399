#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <memory>

namespace accrue::train {

/// Keeps a window's activations between passes, in memory or in a temporary file.
///
/// The file has no name, so nothing is left behind however the process ends. A tensor in it is
/// mapped while somebody holds it and given back to the disk with its handle, so that what is kept
/// does not count as resident memory.
class ActivationStore {
 public:
  /// An empty `folder` is for memory. Throws a usage Error if no file can be made in the folder.
  explicit ActivationStore(const std::filesystem::path& folder = {});

  class Kept;
  /// Keeps `tensor`, which must not be written to afterwards. Throws a runtime Error if the disk
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
  /// The tensor, undefined if nothing is kept. Writes to it stay private where it lies in a
  /// file.
  at::Tensor tensor() const;

 private:
  friend class ActivationStore;
  struct Region;
  at::Tensor in_memory_;
  std::shared_ptr<Region> file_;
};

}  // namespace accrue::train
