#include "train/plan/storage.h"

#include "train/config/gradient_folding.h"

namespace accrue::train {
namespace {

using accum::Accumulation;
using models::Compute;
using optim::StatePrecision;

constexpr double kFp32 = 4, kTwoBytes = 2, kFp64 = 8;
/// Bytes of a value in int8: its code, and its share of a block's fp32 scale.
constexpr double kInt8 = 1 + 4.0 / 256;

double gradient_bytes(const Config& config) {
  if (folds_gradients(config)) return 0;
  switch (config.precision.accumulate) {
    case Accumulation::bf16:
    case Accumulation::bf16_stochastic:
      return kTwoBytes;
    case Accumulation::bf16_kahan:
      return 2 * kTwoBytes;
    case Accumulation::fp64:
    case Accumulation::fixed:
      return kFp64;
    case Accumulation::fp32:
      break;
  }
  return value_bytes_of(config).master;
}

int moments(const OptimConfig& optim) {
  const int of_momentum = optim.momentum != 0 ? 1 : 0;
  if (optim.kind == OptimizerKind::sgd) return of_momentum;
  if (optim.kind == OptimizerKind::rmsprop) return 1 + of_momentum;
  return 2;
}

double moment_bytes(const Config& config) {
  switch (config.optim.state) {
    case StatePrecision::bf16:
      return kTwoBytes;
    case StatePrecision::int8:
      return kInt8;
    case StatePrecision::fp32:
      break;
  }
  return value_bytes_of(config).master;
}

}  // namespace

memory::ValueBytes value_bytes_of(const Config& config) {
  switch (config.precision.compute) {
    case Compute::bf16:
    case Compute::fp16:
      return {.master = kFp32, .operand = kTwoBytes};
    case Compute::fp64:
      return {.master = kFp64, .operand = kFp64};
    case Compute::fp32:
      break;
  }
  return {.master = kFp32, .operand = kFp32};
}

memory::Storage storage_of(const Config& config) {
  return {.values = value_bytes_of(config),
          .gradient = gradient_bytes(config),
          .moments = moments(config.optim) * moment_bytes(config)};
}

}  // namespace accrue::train
