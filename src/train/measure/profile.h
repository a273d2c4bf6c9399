#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "accrue/train/config.h"

namespace accrue::train {

/// One kernel's share of a window.
struct KernelCost {
  std::string kernel;        ///< a matrix product with its rows x columns x terms
  std::string part;          ///< part of training: "linear forward", "attention backward", "loss"
  bool in_backward = false;  ///< with recomputation
  std::int64_t calls = 0;    ///< in the window
  double seconds = 0;        ///< per micro-batch, without the kernels that it calls
  std::int64_t bytes = 0;    ///< per micro-batch, in the tensors it reads or writes; 0: unknown
  double gflops = 0;         ///< GFLOP/s; 0: it does a negligible number, or unknown
  /// Its share of the GEMM peak, or of the memory bandwidth, at most 1; 0: unknown, or not bounded
  /// by them since its data lie in caches.
  double share_of_ceiling = 0;
};

/// The time of a window by its parts, as measured on one thread.
struct Profile {
  std::int64_t micro_batch = 0;
  std::int64_t micro_batches = 0;
  double seconds = 0;  ///< the window with its optimizer step, per micro-batch
  /// The best GEMM rate seen: at 2048 x 2048 x 2048 in the model's precision, before and after the
  /// window, or by a kernel in it.
  double peak_gflops = 0;
  double bandwidth_gbps = 0;  ///< that of c = a + b over arrays that no cache holds, in 1e9 bytes/s
  std::vector<KernelCost> kernels;  ///< the most time first
  struct Part {
    std::string name;
    double seconds = 0;  ///< per micro-batch
  };
  std::vector<Part> parts;  ///< the kernels by part; the most time first
  double rest_seconds =
      0;  ///< outside of all kernels: autograd, data, bookkeeping; per micro-batch
};

/// Runs one window of the config to warm up and one that is measured.
Profile profile(const Config& config);

}  // namespace accrue::train
