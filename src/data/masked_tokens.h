#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "accrue/data/source.h"

namespace accrue::data {

/// How tokens are hidden from a model that learns to predict them (Devlin et al., arXiv:1810.04805,
/// section 3.1): a chosen token is replaced by `mask_token` in 80% of cases, by another token in
/// 10%, and kept in 10%.
struct TokenMasking {
  double fraction = 0.15;       ///< how likely a token is to be chosen, in (0, 1]
  std::int64_t mask_token = 0;  ///< not a token of the data
  /// Replacement tokens are drawn uniformly from [0, vocab) without `mask_token`.
  std::int64_t vocab = 0;
  std::vector<std::int64_t> never_chosen = {};  ///< sorted ids of tokens around texts
  std::uint64_t seed = 0;
};

/// `tokens`, which were opened whole (SourceOptions::whole), with some of them hidden: inputs are
/// what the model sees, targets the tokens that it has to predict, and -100 elsewhere. Only tokens
/// with a target are chosen, each independently.
///
/// Whether the token at position t of a sample is chosen and how it is replaced is a pure function
/// of (seed, draw, t) in fetch_drawn(), so that it does not depend on the micro-batch, packing,
/// ranks or resumption, and of (sample, t) alone in fetch(), so that losses of evaluations can be
/// compared. Samples that do not fill their rows get spans, since a model that sees what follows
/// must not see padding.
///
/// vocab() includes `mask_token`. Throws a usage Error if the fraction is out of range, there is no
/// other token to draw, or the first sample shows that the source has images, pairs, columns, or
/// labels of other tokens than those at the same positions.
std::unique_ptr<Source> with_masks(std::shared_ptr<const Source> tokens, TokenMasking masking);

}  // namespace accrue::data
