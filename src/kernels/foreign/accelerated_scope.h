#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/DispatchKey.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "accrue/core/forward_context.h"
#include "accrue/core/parameter.h"
#include "accrue/kernels/accelerate.h"

namespace accrue::kernels {

/// The key under which libtorch's dispatcher finds accrue's operations, if the thread includes it.
/// It comes before all of autograd, and no tensor on the CPU has it: libtorch reserves it for
/// autocasting on an out-of-tree device.
inline constexpr c10::DispatchKey accelerated_key = c10::DispatchKey::AutocastPrivateUse1;

/// A model whose operations accrue runs, and the counts of all its passes.
class AcceleratedModel {
 public:
  /// Throws what install_interception() throws.
  explicit AcceleratedModel(const NamedParameters& parameters);

  bool has(const at::Tensor& parameter) const {
    return parameters_.contains(parameter.unsafeGetTensorImpl());
  }

  AcceleratedCalls calls;
  /// Dropouts of passes whose samples were set, but whose masks still depend on the split: libtorch
  /// drew them, or more than one layout fits.
  std::int64_t unkeyed_dropouts = 0;
  /// Whether the dropout `site` had the same number of rows per sample in each pass so far.
  bool has_rows(std::int64_t site, std::int64_t rows) {
    return rows_.emplace(site, rows).first->second == rows;
  }

 private:
  std::unordered_map<std::int64_t, std::int64_t> rows_;
  /// The tensors are kept, so that no other tensor gets the address of one.
  std::unordered_map<const c10::TensorImpl*, at::Tensor> parameters_;
};

/// The operations of a pass that accrue runs.
enum class InterceptedOperations : std::uint8_t {
  with_graph,  ///< all that it supports, if a graph is recorded
  always,      ///< also if none is, because the pass will run again with one
  dropouts,    ///< only these, by ForwardContext::operations: in passes for comparison
};

/// The state of an accelerated forward pass. A copy of it in the middle of the pass marks where a
/// second run of the rest begins.
struct AcceleratedPass {
  std::shared_ptr<AcceleratedModel> model;
  InterceptedOperations caught = InterceptedOperations::with_graph;
  ForwardContext context = {};
  std::int64_t next_site = 0;  ///< identifies a dropout of the pass

  /// Samples of the pass; 0: unknown, or not one row each.
  std::int64_t samples() const {
    return context.spans.empty() ? static_cast<std::int64_t>(context.sample_ids.size()) : 0;
  }
};

/// During its lifetime, passes on the thread that made it are accelerated. It may be destroyed on
/// another thread, also during an operation of that thread: the next operation there is
/// libtorch's.
class AcceleratedScope {
 public:
  explicit AcceleratedScope(AcceleratedPass pass);
  ~AcceleratedScope();
  AcceleratedScope(const AcceleratedScope&) = delete;
  AcceleratedScope& operator=(const AcceleratedScope&) = delete;

  /// That of the scope made last on this thread, or null. The results of these two functions are
  /// valid until this thread makes or destroys a scope, or calls leave_closed().
  static AcceleratedPass* innermost();
  /// That of the scope made last on this thread for a model that has `parameter`, or null.
  static AcceleratedPass* of(const at::Tensor& parameter);
  /// Forgets the scopes of this thread that another one destroyed. Call at the beginning of an
  /// operation.
  static void leave_closed();

  AcceleratedPass& pass() { return state_->pass; }

  /// Shared with the thread that made it, which reads it without a lock.
  struct State {
    explicit State(AcceleratedPass of_pass) : pass(std::move(of_pass)) {}
    AcceleratedPass pass;
    std::atomic<bool> is_closed = false;
  };

 private:
  std::shared_ptr<State> state_;
};

}  // namespace accrue::kernels
