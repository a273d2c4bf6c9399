#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "accrue/models/trainable.h"
#include "models/layers/projection.h"

namespace accrue::models {

/// The segments "embed", "block.0" ... of a transformer. `Model` has embed(inputs, context) and
/// block(index, x, context), each returning a tensor, the weights of the former (embed_weights())
/// and the `blocks` of the latter, and must outlive them. For recomputation the embedding belongs
/// to the first block, and what follows to the last.
template <class Model>
std::vector<Segment> transformer_body(Model* model, std::int64_t blocks) {
  std::vector<Segment> chain;
  chain.push_back({.name = "embed",
                   .forward =
                       [model](const Activations&, const batch::MicroBatch& micro,
                               const ForwardContext& context) {
                         return Activations{model->embed(micro.inputs, context)};
                       },
                   .weights = [model] { return model->embed_weights(); }});
  for (std::int64_t i = 0; i < blocks; ++i)
    chain.push_back({.name = "block." + std::to_string(i),
                     .forward =
                         [model, i](const Activations& x, const batch::MicroBatch&,
                                    const ForwardContext& context) {
                           return Activations{model->block(i, x.at(0), context)};
                         },
                     .begins_block = i > 0,
                     .weights =
                         [model, i] {
                           return weights_of(
                               model->blocks[static_cast<std::size_t>(i)].projections());
                         }});
  return chain;
}

/// transformer_body(), followed by "head": `Model` also has head(x, context), and the weights of it
/// and of the loss (head_weights()).
template <class Model>
std::vector<Segment> transformer_segments(Model* model, std::int64_t blocks) {
  std::vector<Segment> chain = transformer_body(model, blocks);
  chain.push_back(
      {.name = "head",
       .forward =
           [model](const Activations& x, const batch::MicroBatch&, const ForwardContext& context) {
             return Activations{model->head(x.at(0), context)};
           },
       .weights = [model] { return model->head_weights(); }});
  return chain;
}

}  // namespace accrue::models
