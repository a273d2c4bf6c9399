#pragma once

#include <string>
#include <string_view>

#include "accrue/core/enum_words.h"

namespace accrue::models {

/// How an output is compared with its target.
enum class ScriptLossKind {
  cross_entropy,  ///< logits [..., K] with classes [...], of which -100 does not count
  mse,            ///< squared differences of two tensors of one shape, each a term
};
inline constexpr auto script_loss_words = enum_words<ScriptLossKind>(
    {{ScriptLossKind::cross_entropy, "cross_entropy"}, {ScriptLossKind::mse, "mse"}});
constexpr std::string_view to_string(ScriptLossKind kind) { return script_loss_words.of(kind); }

/// A loss of a TorchScript module, with a denominator of its own: how many of its terms count.
struct ScriptLoss {
  std::string name;
  ScriptLossKind kind = ScriptLossKind::cross_entropy;
  /// Names one of the things that forward returns: a key of its dict, a field of its NamedTuple, or
  /// the place in its tuple ("0"); empty stands for the only one.
  std::string output = {};
  std::string target = "labels";  ///< a column of the data, or "labels": what the data has as such
  double coefficient = 1;         ///< how much its mean counts in the total

  bool operator==(const ScriptLoss&) const = default;
};

}  // namespace accrue::models
