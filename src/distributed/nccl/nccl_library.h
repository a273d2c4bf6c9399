#pragma once

#include <chrono>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace accrue::distributed {

/// A request to the library libaccrue_nccl.so. It is loaded, not linked, because it needs
/// libtorch's part for CUDA, which machines without a GPU do not load.
struct NcclRequest {
  c10::intrusive_ptr<c10d::Store> store;  ///< by which ranks find each other, for the engine only
  int rank = 0;
  int world = 1;
  std::chrono::milliseconds timeout{};  ///< of each collective
};

using NcclEngine = c10::intrusive_ptr<c10d::Backend>;

/// The library's only function: sets `made` to a new engine, or throws what c10d threw.
using MakeNcclEngine = void (*)(const NcclRequest& request, NcclEngine& made);

inline constexpr const char* kNcclLibrary = "libaccrue_nccl.so";
inline constexpr const char* kMakeNcclEngine = "accrue_make_nccl_engine";

}  // namespace accrue::distributed
