#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

/// Accrue's CPU kernels beside ATen's and beside the machine's roofline.
namespace accrue::bench {

/// A GPT-2 and one of its micro-batches.
struct Workload {
  const char* name;
  std::int64_t layers, width, heads, context, vocabulary, samples;
  std::int64_t tokens() const { return samples * context; }
};
inline constexpr Workload workloads[] = {
    {"10.8M", 6, 384, 6, 256, 256, 4},
    {"124M", 12, 768, 12, 1024, 50'304, 1},
};

/// One computation, its inputs made: each side runs it once per call and returns what it computed,
/// where that can be compared. A side that accumulates starts from zeros.
struct Comparison {
  using Side = std::function<std::vector<at::Tensor>()>;
  Side accrue, aten;
  /// Of the products where there are any; else of the formula, a transcendental function as one.
  double flops;
  double bytes;  ///< each operand and result once, however often a side touches it
  at::ScalarType products = at::kFloat;  ///< dtype of their operands; fp32 where there are none
  /// Of the results' difference, relative in the L2 norm; else what `Subject::dtype` rounds.
  std::optional<double> tolerance = {};
};

struct Subject {
  std::string kernel;
  const Workload& workload;
  at::ScalarType dtype;  ///< of activations
};

/// Registers "against_aten/<kernel>/<workload>/<dtype>". A repetition makes the comparison anew and
/// is one round: blocks of calls of accrue, of ATen and of the two that make the roof, in turn. It
/// fails where the sides' results disagree.
///
/// The roof (Williams, Waterman, Patterson, CACM 2009): `flops` at the rate of a 2048 x 2048 x 2048
/// product in the dtype of `products`, or `bytes` at the rate of c = a + b over arrays of as many
/// bytes, whichever takes longer. So what fits into a cache is held against the cache.
void add_comparison(Subject subject, std::function<Comparison()> make);

// What the kernels' files share.

inline constexpr at::ScalarType precisions[] = {at::kFloat, at::kBFloat16};

/// Normally distributed, the same in every round.
at::Tensor random(at::IntArrayRef sizes, at::ScalarType dtype, double deviation = 1);

double bytes_of(at::TensorList tensors);

// One for each family of kernels.

void add_attention();
void add_elementwise();
void add_embedding();
void add_head();
void add_linear();
void add_norm();
void add_optimizer();

}  // namespace accrue::bench
