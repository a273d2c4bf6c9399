#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "accrue/core/enum_words.h"

namespace accrue::models {

enum class AdapterKind {
  lora,  ///< Hu et al., arXiv:2106.09685
  dora,  ///< also trains the norm of each row: Liu et al., arXiv:2402.09353
};
/// The words of lora.kind.
inline constexpr auto adapter_kind_words =
    enum_words<AdapterKind>({{AdapterKind::lora, "lora"}, {AdapterKind::dora, "dora"}});
constexpr std::string_view to_string(AdapterKind kind) { return adapter_kind_words.of(kind); }

/// Adapters: factors that are trained instead of a language model's weights, which are frozen.
struct AdapterOptions {
  std::int64_t rank = 0;  ///< 0: no adapters, and all weights are trained
  double alpha = 0;       ///< 0: twice the rank
  double dropout = 0;     ///< of the input of an adapter, in [0, 1)
  /// Patterns (core/name_pattern.h) for the names of linear layers in the blocks, such as "q_proj"
  /// or "model.layers.0.mlp"; empty: all of them.
  std::vector<std::string> targets = {};
  AdapterKind kind = AdapterKind::lora;
  /// Whether adapters are scaled by alpha / sqrt(rank) (Kalajdzievski, arXiv:2312.03732) instead of
  /// alpha / rank.
  bool rank_stabilised = false;

  bool operator==(const AdapterOptions&) const = default;
  bool any() const { return rank > 0; }
  double alpha_or_usual() const { return alpha > 0 ? alpha : 2 * static_cast<double>(rank); }
  /// The factor of an adapter's product.
  double scale() const;
};

}  // namespace accrue::models
