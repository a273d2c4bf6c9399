#pragma once

#include <optional>
#include <string>
#include <vector>

#include "accrue/models/script_loss.h"
#include "accrue/models/torch_module.h"
#include "models/foreign/script_method.h"

namespace accrue::models {

/// The losses that a method of a TorchScript module returns itself: (sum, weight), or several of
/// these by name, in a NamedTuple or a dict. The method NAME_weights, if the module has one, gives
/// their weights beforehand: a number for each name, from the labels alone.
class ScriptLosses {
 public:
  /// `stated` has the names and coefficients of several losses; a NamedTuple has names of its own.
  /// Throws a usage Error that states what to write if the method returns something else (only a
  /// mean, for example), if the names of a dict are not stated, and if several losses have no
  /// NAME_weights.
  ScriptLosses(const torch::jit::Module& module, const std::string& method,
               const std::vector<ScriptLoss>& stated, const std::string& origin);

  const ScriptMethod& method() const { return method_; }
  /// In the order of the method's results. Throws a usage Error if a loss is missing.
  std::vector<Loss> losses_of(const at::IValue& result) const;
  /// The losses by name; `dtype` is the parameters'.
  std::vector<NamedLoss> named(at::ScalarType dtype) const;

 private:
  std::vector<ScriptLoss> heads_of(const std::vector<ScriptLoss>& stated) const;

  ScriptMethod method_;
  std::optional<ScriptMethod> weights_;
  std::string origin_;
  bool is_single_ = false;  ///< the result itself is (sum, weight)
  std::vector<ScriptLoss> heads_;
};

}  // namespace accrue::models
