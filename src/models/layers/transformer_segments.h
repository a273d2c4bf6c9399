#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "accrue/models/trainable.h"

namespace accrue::models {

/// The segments "embed", "block.0" ... of a transformer. `Model` has embed(inputs, context) and
/// block(index, x, context), each returning a tensor, and must outlive them. For recomputation the
/// embedding belongs to the first block, and what follows to the last.
template <class Model>
std::vector<Segment> transformer_body(Model* model, std::int64_t blocks) {
  std::vector<Segment> chain;
  chain.push_back({"embed", [model](const Activations&, const batch::MicroBatch& micro,
                                    const ForwardContext& context) {
                     return Activations{model->embed(micro.inputs, context)};
                   }});
  for (std::int64_t i = 0; i < blocks; ++i)
    chain.push_back({.name = "block." + std::to_string(i),
                     .forward =
                         [model, i](const Activations& x, const batch::MicroBatch&,
                                    const ForwardContext& context) {
                           return Activations{model->block(i, x.at(0), context)};
                         },
                     .begins_block = i > 0});
  return chain;
}

/// transformer_body(), followed by "head": `Model` also has head(x, context).
template <class Model>
std::vector<Segment> transformer_segments(Model* model, std::int64_t blocks) {
  std::vector<Segment> chain = transformer_body(model, blocks);
  chain.push_back({"head", [model](const Activations& x, const batch::MicroBatch&,
                                   const ForwardContext& context) {
                     return Activations{model->head(x.at(0), context)};
                   }});
  return chain;
}

}  // namespace accrue::models
