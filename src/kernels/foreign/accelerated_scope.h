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

/// Under this key libtorch's dispatcher finds accrue's operations, where the thread includes it. It
/// comes before all of autograd, and no tensor on the CPU carries it: libtorch keeps it for
/// autocasting on a device of somebody else's.
inline constexpr c10::DispatchKey accelerated_key = c10::DispatchKey::AutocastPrivateUse1;

/// A model whose operations accrue does, and what came of it in all its passes.
class AcceleratedModel {
 public:
  /// Throws what install_interception() throws.
  explicit AcceleratedModel(const NamedParameters& parameters);

  bool has(const at::Tensor& parameter) const {
    return parameters_.contains(parameter.unsafeGetTensorImpl());
  }

  AcceleratedCalls calls;
  /// Dropouts of passes whose samples were told, and whose masks depend on the split nevertheless:
  /// libtorch drew them, or more than one layout fits.
  std::int64_t unkeyed_dropouts = 0;
  /// Whether the dropout `site` had as many rows of a sample in each pass so far.
  bool has_rows(std::int64_t site, std::int64_t rows) {
    return rows_.emplace(site, rows).first->second == rows;
  }

 private:
  std::unordered_map<std::int64_t, std::int64_t> rows_;
  /// The tensors are kept, so that no other gets the address of one.
  std::unordered_map<const c10::TensorImpl*, at::Tensor> parameters_;
};

/// Which operations of a pass are accrue's.
enum class Caught : std::uint8_t {
  with_graph,  ///< all that it does, if a graph is recorded
  always,      ///< also if none is, as the pass is to be run again with one
  dropouts,    ///< these alone, by ForwardContext::operations: of passes to compare with
};

/// What a forward pass is accelerated by. A copy of it in the midst of the pass is where a second
/// run of the rest begins.
struct AcceleratedPass {
  std::shared_ptr<AcceleratedModel> model;
  Caught caught = Caught::with_graph;
  ForwardContext context = {};
  std::int64_t next_site = 0;  ///< tells a dropout of the pass from the others

  /// Samples of the pass; 0: not known, or not a row each.
  std::int64_t samples() const {
    return context.spans.empty() ? static_cast<std::int64_t>(context.sample_ids.size()) : 0;
  }
};

/// While it lives, a pass that runs on the thread that made it is accelerated. It may be destroyed
/// on another thread, also while that one is in an operation: the next operation there is
/// libtorch's.
class AcceleratedScope {
 public:
  explicit AcceleratedScope(AcceleratedPass pass);
  ~AcceleratedScope();
  AcceleratedScope(const AcceleratedScope&) = delete;
  AcceleratedScope& operator=(const AcceleratedScope&) = delete;

  /// That of the scope made last on this thread, or null. What these two return lives until this
  /// thread makes or destroys a scope, or calls leave_closed().
  static AcceleratedPass* innermost();
  /// That of the scope made last on this thread for a model that has `parameter`, or null.
  static AcceleratedPass* of(const at::Tensor& parameter);
  /// Forgets the scopes of this thread that another one destroyed. To be called where an operation
  /// begins.
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
