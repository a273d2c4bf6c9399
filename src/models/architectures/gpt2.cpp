#include "accrue/models/gpt2.h"

#include "accrue/models/gpt2_io.h"
#include "kernels/operations.h"
#include "models/layers/compute_dtypes.h"
#include "models/layers/decode.h"
#include "models/layers/losses/preference_loss.h"
#include "models/layers/losses/token_head.h"
#include "models/layers/option_checks.h"
#include "models/layers/recorded_pass.h"
#include "models/layers/transformer_block.h"
#include "models/layers/transformer_segments.h"

namespace accrue::models {
namespace {

constexpr const char* make_gpt2 = "make a GPT-2";

void check(const Gpt2Options& options) {
  check_at_least_one(make_gpt2, "model.layers", options.layers);
  check_at_least_one(make_gpt2, "model.heads", options.heads);
  check_at_least_one(make_gpt2, "model.width", options.width);
  check_at_least_one(make_gpt2, "model.context", options.context);
  check_at_least_one(make_gpt2, "model.vocab", options.vocab);
  check_width_of_heads(make_gpt2, options.width, options.heads);
  check_at_least_one(make_gpt2, "model.ffn_width", options.inner_width());
  check_dropout(make_gpt2, options.dropout);
  check_fraction(make_gpt2, "norm_eps", options.norm_eps);
  const auto width = static_cast<double>(options.width);
  const double of_block = 4 * width + 2 * static_cast<double>(options.inner_width());
  check_parameters(make_gpt2, width * (static_cast<double>(options.vocab) +
                                       static_cast<double>(options.context) +
                                       static_cast<double>(options.layers) * of_block));
}

TransformerBlock make_block(ParameterBuilder& builder, const Gpt2Options& options,
                            std::int64_t index) {
  const std::string name = "transformer.h." + std::to_string(index);
  const std::int64_t width = options.width, ffn_width = options.inner_width();
  const double into_residual = residual_deviation(options.layers);
  // Braces evaluate in order, so the parameters are registered in forward order.
  return {
      make_norm(builder, name + ".ln_1", width, options.norm_eps),
      make_projection(builder, name + ".attn.c_attn", width, 3 * width, initial_deviation),
      make_projection(builder, name + ".attn.c_proj", width, width, into_residual),
      make_norm(builder, name + ".ln_2", width, options.norm_eps),
      make_projection(builder, name + ".mlp.c_fc", width, ffn_width, initial_deviation),
      make_projection(builder, name + ".mlp.c_proj", ffn_width, width, into_residual),
  };
}

}  // namespace

struct Gpt2::Impl {
  Gpt2Options options;
  at::ScalarType activations;  ///< dtype of GEMM inputs; the residual stream has the masters'
  at::Tensor wte, wpe;
  std::vector<TransformerBlock> blocks;
  LayerNorm ln_f;
  TokenHead output;
  NamedParameters parameters;

  Impl(const Gpt2Options& wanted, Initialisation initialisation)
      : options(wanted), activations(activation_dtype(wanted.compute)) {
    ParameterBuilder builder(master_dtype(options.compute), initialisation);
    if (options.adapters.any()) builder.begin_frozen(activations);
    wte =
        builder.normal("transformer.wte.weight", {options.vocab, options.width}, initial_deviation);
    wpe = builder.normal("transformer.wpe.weight", {options.context, options.width},
                         initial_deviation);
    for (std::int64_t i = 0; i < options.layers; ++i)
      blocks.push_back(make_block(builder, options, i));
    ln_f = make_norm(builder, "transformer.ln_f", options.width, options.norm_eps);
    output = {.weight = wte, .options = options.loss, .fused = options.fused_loss};
    parameters = with_adapters(make_gpt2, builder, projections_of(blocks), options.adapters,
                               1 + 3 * options.layers, options.seed);
  }

  /// `first` is the position of the first id.
  at::Tensor embed(const at::Tensor& ids, const ForwardContext& context,
                   std::int64_t first = 0) const {
    check_token_ids("GPT-2 forward", ids, options.context, !context.spans.empty());
    const kernels::Operations& kernels = kernels::operations_of(context);
    const at::Tensor positions = first == 0 ? wpe : wpe.narrow(0, first, ids.size(1));
    return kernels.dropout(kernels.embed_tokens(ids, wte, positions, context.spans),
                           options.dropout, context, 0);
  }

  at::Tensor block(std::int64_t index, const at::Tensor& x, const ForwardContext& context,
                   kernels::KeyValueCache* cache = nullptr) {
    const BlockOptions common{
        .heads = options.heads, .dropout = options.dropout, .activations = activations};
    return blocks[static_cast<std::size_t>(index)](x, common, context, 1 + 3 * index, cache);
  }

  at::Tensor norm_last(const at::Tensor& x, at::ScalarType out,
                       const ForwardContext& context) const {
    return ln_f(x, out, context);
  }

  at::Tensor head(const at::Tensor& x, const ForwardContext& context) const {
    // The norm keeps its input and not its result, whose memory the loss's gradient may take.
    return norm_last(x, activations, context);
  }

  std::vector<at::Tensor> embed_weights() const { return {wte, wpe}; }
  std::vector<at::Tensor> head_weights() const { return output.weights(); }
};

Gpt2::Gpt2(const Gpt2Options& options, Initialisation initialisation) {
  check(options);
  impl_ = std::make_unique<Impl>(options, initialisation);
}

Gpt2::~Gpt2() = default;

NamedParameters Gpt2::parameters() const { return impl_->parameters; }

/// The embedding's parameter is also the head's.
std::vector<std::string> Gpt2::shared_parameters() const { return {"transformer.wte.weight"}; }

const Gpt2Options& Gpt2::options() const { return impl_->options; }

std::vector<Segment> Gpt2::segments() {
  return transformer_segments(impl_.get(), impl_->options.layers);
}

std::vector<LossHead> Gpt2::losses() { return {token_loss(&impl_->output)}; }

std::optional<std::vector<at::Tensor>> Gpt2::prepare_recorded_pass() {
  if (impl_->options.dropout > 0) return std::nullopt;
  return models::prepare_recorded_pass(projections_of(impl_->blocks), impl_->output,
                                       impl_->activations);
}

at::Tensor Gpt2::next_token_logits(const at::Tensor& ids) {
  return models::next_token_logits(*impl_, impl_->options.layers, ids, impl_->options.context,
                                   "GPT-2 next token");
}

DecodingCache Gpt2::make_decoding_cache() const {
  const Gpt2Options& o = impl_->options;
  const kernels::KeyValueCache layer({.kv_heads = o.heads,
                                      .width = o.width / o.heads,
                                      .most_positions = o.context,
                                      .dtype = impl_->activations});
  return {std::vector<kernels::KeyValueCache>(static_cast<std::size_t>(o.layers), layer)};
}

at::Tensor Gpt2::decode(const at::Tensor& ids, DecodingCache& cache) {
  return models::decode(*impl_, impl_->options.layers, ids, cache, impl_->options.context,
                        "GPT-2 decode");
}

std::int64_t Gpt2::flops_per_sample() const { return options().context * flops_per_token(); }

at::Tensor Gpt2::sequence_log_probabilities(const batch::MicroBatch& micro) {
  return models::sequence_log_probabilities(*this, impl_->output, micro);
}

std::int64_t Gpt2::packed_weight_bytes() const {
  return models::packed_weight_bytes(projections_of(impl_->blocks), impl_->activations);
}

void Gpt2::pack_weights(bool wanted) {
  models::pack_weights(projections_of(impl_->blocks), wanted);
}

void Gpt2::restart_adapters() { models::restart_adapters(projections_of(impl_->blocks)); }

NamedParameters Gpt2::file_tensors() const { return to_hugging_face(parameters()); }

void Gpt2::load_file_tensors(const StoredTensors& tensors, const std::string& origin) {
  load_hugging_face(*this, tensors, origin);
}

std::int64_t Gpt2::flops_per_token() const {
  const Gpt2Options& options = impl_->options;
  const bool frozen_table = !impl_->wpe.requires_grad();
  const std::int64_t looked_up = (frozen_table ? 4 : 6) * impl_->wpe.numel();
  return operations_of_products(parameters()) - looked_up +
         6 * options.layers * options.width * (options.context + 1);
}

}  // namespace accrue::models
