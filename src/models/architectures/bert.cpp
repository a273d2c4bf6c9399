#include "accrue/models/bert.h"

#include <ATen/ATen.h>

#include "accrue/core/error.h"
#include "accrue/kernels/cross_entropy.h"
#include "kernels/operations.h"
#include "models/files/hub/bert_names.h"
#include "models/layers/bert_block.h"
#include "models/layers/compute_dtypes.h"
#include "models/layers/losses/token_head.h"
#include "models/layers/option_checks.h"
#include "models/layers/transformer_segments.h"

namespace accrue::models {
namespace {

constexpr const char* make_bert = "make a BERT";

BertOptions checked(BertOptions options) {
  check_at_least_one(make_bert, "model.layers", options.layers);
  check_at_least_one(make_bert, "model.heads", options.heads);
  check_at_least_one(make_bert, "model.width", options.width);
  check_at_least_one(make_bert, "model.context", options.context);
  check_at_least_one(make_bert, "model.vocab", options.vocab);
  check_width_of_heads(make_bert, options.width, options.heads);
  check_at_least_one(make_bert, "token_types", options.token_types);
  check_dropout(make_bert, options.dropout);
  check_fraction(make_bert, "norm_eps", options.norm_eps);
  if (options.loss.kind != LossKind::mlm)
    throw usage_error(make_bert, "loss.kind \"mlm\", since a position sees all of its sample",
                      "\"" + std::string(to_string(options.loss.kind)) + "\"",
                      "LossKind::mlm, of data with hidden tokens");
  options.ffn_width = options.inner_width();
  check_at_least_one(make_bert, "model.ffn_width", options.ffn_width);
  const auto width = static_cast<double>(options.width);
  const double of_block = 4 * width + 2 * static_cast<double>(options.ffn_width);
  check_parameters(make_bert, width * (static_cast<double>(options.vocab) +
                                       static_cast<double>(options.context) +
                                       static_cast<double>(options.token_types) +
                                       static_cast<double>(options.layers) * of_block));
  return options;
}

/// The rows of [R, T] positions with a loss, [M]. If there is none, the first row is used,
/// whose label still does not count: each parameter then has a gradient, 0, as in other
/// micro-batches.
at::Tensor predicted_positions(const at::Tensor& targets) {
  const at::Tensor positions = targets.flatten().ne(kernels::ignored_label).nonzero().squeeze(1);
  return positions.size(0) > 0 ? positions : at::zeros({1}, positions.options());
}

/// The labels of `micro` at these positions only.
batch::MicroBatch labels_at(const at::Tensor& positions, const batch::MicroBatch& micro) {
  batch::MicroBatch labels;
  labels.targets = micro.targets.flatten().index_select(0, positions);
  if (micro.weights.defined()) labels.weights = micro.weights.flatten().index_select(0, positions);
  return labels;
}

}  // namespace

struct Bert::Impl {
  BertOptions options;
  at::ScalarType masters, activations;  ///< dtypes of the residual stream and of GEMM inputs
  at::Tensor words, positions, types;
  LayerNorm embedding_norm;
  std::vector<BertBlock> blocks;
  Projection transform;
  LayerNorm transform_norm;
  TokenHead output;
  NamedParameters parameters;

  Impl(const BertOptions& wanted, Initialisation initialisation)
      : options(wanted),
        masters(master_dtype(wanted.compute)),
        activations(activation_dtype(wanted.compute)) {
    const std::int64_t width = options.width;
    const std::string embeddings = "bert.embeddings.", head = "cls.predictions.";
    ParameterBuilder builder(masters, initialisation);
    words = builder.normal(embeddings + "word_embeddings.weight", {options.vocab, width},
                           initial_deviation);
    positions = builder.normal(embeddings + "position_embeddings.weight", {options.context, width},
                               initial_deviation);
    types = builder.normal(embeddings + "token_type_embeddings.weight",
                           {options.token_types, width}, initial_deviation);
    embedding_norm = make_norm(builder, embeddings + "LayerNorm", width, options.norm_eps);
    for (std::int64_t i = 0; i < options.layers; ++i)
      blocks.push_back(
          make_bert_block(builder, "bert.encoder.layer." + std::to_string(i), options));
    transform = make_projection(builder, head + "transform.dense", width, width, initial_deviation);
    transform_norm = make_norm(builder, head + "transform.LayerNorm", width, options.norm_eps);
    output = {.weight = words,
              .bias = builder.constant(head + "bias", {options.vocab}, 0),
              .options = options.loss,
              .fused = options.fused_loss};
    builder.fill(options.seed);
    parameters = builder.take();
  }

  at::Tensor embed(const at::Tensor& ids, const ForwardContext& context) const {
    check_token_ids("BERT forward", ids, options.context, !context.spans.empty());
    const kernels::Operations& kernels = kernels::operations_of(context);
    const at::Tensor tokens = kernels.embed_tokens(ids, words, positions, context.spans);
    return kernels.dropout(embedding_norm(tokens + types.select(0, 0), masters, context),
                           options.dropout, context, 0);
  }

  at::Tensor block(std::int64_t index, const at::Tensor& x, const ForwardContext& context) {
    const BlockOptions common{.heads = options.heads,
                              .causal = false,
                              .dropout = options.dropout,
                              .activations = activations};
    return blocks[static_cast<std::size_t>(index)](x, common, context, 1 + 3 * index);
  }

  at::Tensor head(const at::Tensor& x, const batch::MicroBatch& micro,
                  const ForwardContext& context) {
    const at::Tensor rows =
        x.flatten(0, 1).index_select(0, predicted_positions(micro.targets)).to(activations);
    const at::Tensor transformed = exact_gelu(transform(rows, context)).to(masters);
    // The norm keeps its input and not its result, whose memory the loss's gradient may take.
    return transform_norm(transformed, activations, context);
  }

  Loss loss(const at::Tensor& hidden, const batch::MicroBatch& micro, const ForwardContext& context,
            double gradient_scale) {
    return output.loss(hidden, labels_at(predicted_positions(micro.targets), micro), context,
                       gradient_scale);
  }

  std::vector<at::Tensor> embed_weights() const { return {words, positions, types}; }
  std::vector<at::Tensor> head_weights() const {
    std::vector<at::Tensor> tensors = output.weights();
    const std::vector<at::Tensor> of_transform = transform.weights();
    tensors.insert(tensors.end(), of_transform.begin(), of_transform.end());
    return tensors;
  }
};

Bert::Bert(const BertOptions& options, Initialisation initialisation)
    : impl_(std::make_unique<Impl>(checked(options), initialisation)) {}

Bert::~Bert() = default;

NamedParameters Bert::parameters() const { return impl_->parameters; }

/// The embedding's parameter is also the head's.
std::vector<std::string> Bert::shared_parameters() const {
  return {"bert.embeddings.word_embeddings.weight"};
}

const BertOptions& Bert::options() const { return impl_->options; }

std::vector<Segment> Bert::segments() {
  std::vector<Segment> chain = transformer_body(impl_.get(), impl_->options.layers);
  chain.push_back({.name = "head",
                   .forward =
                       [model = impl_.get()](const Activations& x, const batch::MicroBatch& micro,
                                             const ForwardContext& context) {
                         return Activations{model->head(x.at(0), micro, context)};
                       },
                   .weights = [model = impl_.get()] { return model->head_weights(); }});
  return chain;
}

std::vector<LossHead> Bert::losses() {
  return {{"cross_entropy",
           [model = impl_.get()](const Activations& hidden, const batch::MicroBatch& micro,
                                 const ForwardContext& context, double gradient_scale) {
             return model->loss(hidden.at(0), micro, context, gradient_scale);
           },
           [](const batch::MicroBatch& micro) {
             return kernels::label_weight(micro.targets, micro.weights);
           }}};
}

std::int64_t Bert::flops_per_sample() const {
  constexpr std::int64_t usual_percent_predicted = 15;
  const BertOptions& o = options();
  const std::int64_t of_block = o.width * (4 * o.width + 2 * o.ffn_width);
  const std::int64_t of_head = o.width * (o.width + o.vocab);
  return o.context * o.layers * (6 * of_block + 12 * o.width * o.context) +
         o.context * 6 * of_head * usual_percent_predicted / 100;
}

std::int64_t Bert::packed_weight_bytes() const {
  return models::packed_weight_bytes(projections_of(impl_->blocks), impl_->activations);
}

void Bert::pack_weights(bool wanted) {
  models::pack_weights(projections_of(impl_->blocks), wanted);
}

NamedParameters Bert::file_tensors() const { return to_bert_names(parameters()); }

void Bert::load_file_tensors(const StoredTensors& tensors, const std::string& origin) {
  load_bert_names(file_tensors(), tensors, origin);
}

}  // namespace accrue::models
