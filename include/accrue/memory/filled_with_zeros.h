#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "accrue/core/rank_slice.h"

namespace accrue::memory {

/// While it exists, those of the tensors that are kept in part are whole, with zeros in place of
/// the rest: for passes that only find out sizes.
class FilledWithZeros {
 public:
  explicit FilledWithZeros(const std::vector<at::Tensor>& tensors);
  ~FilledWithZeros();
  FilledWithZeros(const FilledWithZeros&) = delete;
  FilledWithZeros& operator=(const FilledWithZeros&) = delete;

 private:
  struct Filled {
    at::Tensor tensor;
    ElementRange kept;
  };
  std::vector<Filled> filled_;
};

}  // namespace accrue::memory
