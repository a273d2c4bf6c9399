#pragma once

#include <string>
#include <string_view>

#include "accrue/core/enum_words.h"

namespace accrue::models {

/// The comparison of an output with its target.
enum class ScriptLossKind {
  cross_entropy,  ///< logits [..., K] with classes [...]; class -100 does not count
  mse,            ///< squared differences of two tensors of one shape, each a term
};
inline constexpr auto script_loss_words = enum_words<ScriptLossKind>(
    {{ScriptLossKind::cross_entropy, "cross_entropy"}, {ScriptLossKind::mse, "mse"}});
constexpr std::string_view to_string(ScriptLossKind kind) { return script_loss_words.of(kind); }

/// A loss of a TorchScript module, with its own denominator: the number of its terms that count.
struct ScriptLoss {
  std::string name;
  ScriptLossKind kind = ScriptLossKind::cross_entropy;
  /// Selects one of the outputs of forward: a key of its dict, a field of its NamedTuple, or the
  /// index in its tuple ("0"); empty: the only one.
  std::string output = {};
  std::string target = "labels";  ///< a column of the data, or "labels": the data's labels
  double coefficient = 1;         ///< the weight of its mean in the total

  bool operator==(const ScriptLoss&) const = default;
};

}  // namespace accrue::models
