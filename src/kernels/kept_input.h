#pragma once

#include <torch/csrc/autograd/custom_function.h>

#include "accrue/kernels/recompute.h"
#include "kernels/saved_value.h"

namespace accrue::kernels {

/// An operation's input in its backward: kept, or recomputed.
class KeptInput {
 public:
  /// The variable to save: x, or nothing if it can be recomputed.
  static at::Tensor save(torch::autograd::AutogradContext& context, const at::Tensor& x,
                         const Remake& remake) {
    if (!remake) return x;
    context.saved_data[key] = to_saved(remake);
    return {};
  }
  /// Returns the input; `saved` is the result of save().
  static at::Tensor get(const torch::autograd::AutogradContext& context, const at::Tensor& saved) {
    return saved.defined() ? saved : from_saved<Remake>(context.saved_data.at(key))();
  }

 private:
  static constexpr const char* key = "remake";
};

}  // namespace accrue::kernels
