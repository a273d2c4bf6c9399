#include "accrue/models/llama.h"

#include <ATen/ATen.h>

#include <cmath>

#include "accrue/core/error.h"
#include "accrue/models/llama_io.h"
#include "kernels/operations.h"
#include "models/files/tensors/named_tensors.h"
#include "models/layers/compute_dtypes.h"
#include "models/layers/decode.h"
#include "models/layers/llama_block.h"
#include "models/layers/losses/preference_loss.h"
#include "models/layers/losses/token_head.h"
#include "models/layers/option_checks.h"
#include "models/layers/recorded_pass.h"
#include "models/layers/rotary_tables.h"
#include "models/layers/transformer_segments.h"

namespace accrue::models {
namespace {

constexpr const char* make_llama = "make a Llama";
constexpr std::int64_t most_llama_width = 1 << 24, most_llama_context = 1 << 28;

void check_multiple(const char* what, std::int64_t value, const char* of, std::int64_t divisor) {
  if (value % divisor != 0)
    throw usage_error(
        make_llama,
        std::string(what) + " that is a multiple of " + of + " (" + std::to_string(divisor) + ')',
        std::to_string(value), std::string("another ") + what);
}

/// Throws unless `value` is in [least, most].
void check_number(const char* what, double value, double least, double most) {
  if (!(value >= least && value <= most))
    throw usage_error(
        make_llama,
        std::string(what) + " from " + std::to_string(least) + " to " + std::to_string(most),
        std::to_string(value), std::string("another ") + what);
}

void check_rotary(const RotaryOptions& rotary) {
  constexpr double most = 1e12;
  check_number("rotary base", rotary.base, 1 + 1e-6, most);
  check_number("rotary factor", rotary.factor, 1e-6, most);
  check_number("rotary original_context", rotary.original_context, 1, most);
  check_number("rotary low_frequency", rotary.low_frequency, 1e-6, most);
  check_number("rotary high_frequency", rotary.high_frequency, rotary.low_frequency + 1e-6, most);
  check_number("rotary beta_slow", rotary.beta_slow, 1e-6, most);
  check_number("rotary beta_fast", rotary.beta_fast, rotary.beta_slow, most);
  check_number("rotary amplitude", rotary.amplitude, 1e-6, most);
}

void check_variant(const LlamaOptions& options) {
  constexpr double most = 1e12;
  const LlamaVariant& variant = options.variant;
  check_number("norm_eps", variant.norm_eps, 0, 1);
  check_number("attention_soft_cap", variant.attention_soft_cap, 0, most);
  check_number("logit_soft_cap", variant.logit_soft_cap, 0, LlamaVariant::most_logit_soft_cap);
  check_number("query_scalar", variant.query_scalar, 0, most);
  check_range(make_llama, "window", variant.window, 0, most_llama_context);
  const auto local_layers = static_cast<std::int64_t>(variant.local_layers.size());
  if (local_layers != 0)
    check_range(make_llama, "number of local_layers", local_layers, options.layers, options.layers);
  check_rotary(variant.rotary);
  if (variant.local_rotary) check_rotary(*variant.local_rotary);
}

/// Checks the shapes, and that the model is not too large to count.
void check_shape(const LlamaOptions& options) {
  check_range(make_llama, "model.layers", options.layers, 1, most_llama_width);
  check_range(make_llama, "model.heads", options.heads, 1, most_llama_width);
  check_range(make_llama, "model.kv_heads", options.kv_heads, 0, options.heads);
  check_range(make_llama, "head_width", options.head_width, 0, most_llama_width);
  check_range(make_llama, "model.width", options.width, 1, most_llama_width);
  check_range(make_llama, "model.ffn_width", options.ffn_width, 0, most_llama_width);
  check_range(make_llama, "model.context", options.context, 1, most_llama_context);
  check_at_least_one(make_llama, "model.vocab", options.vocab);
  if (options.kv_heads != 0)
    check_multiple("model.heads", options.heads, "model.kv_heads", options.kv_heads);
  if (options.head_width == 0) check_width_of_heads(make_llama, options.width, options.heads);
}

/// Exact up to 2^53 parameters, without overflow beyond.
double parameters_in(const LlamaOptions& options) {
  const LlamaVariant& variant = options.variant;
  const auto width = static_cast<double>(options.width);
  const auto head_width = static_cast<double>(options.head_width);
  const double q_width = head_width * static_cast<double>(options.heads);
  const double kv_width = head_width * static_cast<double>(options.kv_heads);
  double block =
      2 * width * (q_width + kv_width) + 3 * width * static_cast<double>(options.ffn_width);
  block += (variant.post_norms ? 4 : 2) * width;
  if (variant.qk_norm) block += 2 * head_width;
  if (variant.qkv_bias) block += q_width + 2 * kv_width;
  if (variant.output_bias) block += width;
  const double tables = variant.tied_head ? 1 : 2;
  return width * (tables * static_cast<double>(options.vocab) + 1) +
         static_cast<double>(options.layers) * block;
}

LlamaOptions checked(const LlamaOptions& wanted) {
  check_shape(wanted);
  LlamaOptions options = with_usual_widths(wanted);
  check_multiple("head_width (model.width / model.heads)", options.head_width, "a pair of channels",
                 2);
  check_dropout(make_llama, options.dropout);
  check_variant(options);
  check_parameters(make_llama, parameters_in(options));
  return options;
}

/// Pairs of a query and a key in a sample of `length` tokens whose queries see `window` keys.
std::int64_t pairs(std::int64_t length, std::int64_t window) {
  const std::int64_t seen = window == 0 ? length : std::min(window, length);
  return seen * (seen + 1) / 2 + (length - seen) * seen;
}

}  // namespace

LlamaOptions with_usual_widths(LlamaOptions options) {
  constexpr std::int64_t step = 64;
  if (options.kv_heads == 0) options.kv_heads = options.heads;
  if (options.head_width == 0) options.head_width = options.width / options.heads;
  if (options.ffn_width == 0)
    options.ffn_width = (8 * options.width + 3 * step - 1) / (3 * step) * step;
  return options;
}

std::int64_t parameter_count(const LlamaOptions& options) {
  return std::llround(parameters_in(with_usual_widths(options)));
}

struct Llama::Impl {
  LlamaOptions options;
  at::ScalarType masters, activations;  ///< dtypes of the residual stream and of GEMM inputs
  at::Tensor embedding;
  RotaryTables rotary, local_rotary;
  std::vector<LlamaBlock> blocks;
  RmsNorm last_norm;
  TokenHead output;
  NamedParameters parameters;

  Impl(const LlamaOptions& wanted, Initialisation initialisation)
      : options(checked(wanted)),
        masters(master_dtype(options.compute)),
        activations(activation_dtype(options.compute)) {
    const LlamaVariant& variant = options.variant;
    rotary = tables_of(variant.rotary);
    local_rotary = variant.local_rotary ? tables_of(*variant.local_rotary) : rotary;
    ParameterBuilder builder(masters, initialisation);
    if (options.adapters.any()) builder.begin_frozen(activations, options.base);
    const std::vector<std::int64_t> table{options.vocab, options.width};
    embedding = builder.normal("model.embed_tokens.weight", table, initial_deviation);
    for (std::int64_t i = 0; i < options.layers; ++i)
      blocks.push_back(make_llama_block(builder, options, i));
    last_norm = make_rms_norm(builder, "model.norm", options.width, variant);
    output = {.weight = variant.tied_head
                            ? embedding
                            : builder.normal("lm_head.weight", table, initial_deviation),
              .soft_cap = variant.logit_soft_cap,
              .options = options.loss,
              .fused = options.fused_loss};
    parameters = with_adapters(make_llama, builder, projections_of(blocks), options.adapters,
                               1 + 3 * options.layers, options.seed);
  }

  RotaryTables tables_of(const RotaryOptions& of) const {
    return rotary_tables(of, options.context, options.head_width, masters);
  }

  /// The rotary tables use `first`, the position of the first id.
  at::Tensor embed(const at::Tensor& ids, const ForwardContext& context,
                   std::int64_t /*first*/ = 0) const {
    check_token_ids("Llama forward", ids, options.context, !context.spans.empty());
    for (const SampleSpan& span : context.spans)
      if (span.end - span.begin > options.context)
        throw usage_error(
            "Llama forward",
            "samples of at most " + std::to_string(options.context) + " tokens (model.context)",
            std::to_string(span.end - span.begin), "shorter samples or a larger context");
    const kernels::Operations& kernels = kernels::operations_of(context);
    at::Tensor x = kernels.embed_tokens(ids, embedding, {}, context.spans);
    if (options.variant.scaled_embedding) x = x * std::sqrt(static_cast<double>(options.width));
    return kernels.dropout(x, options.dropout, context, 0);
  }

  at::Tensor block(std::int64_t index, const at::Tensor& x, const ForwardContext& context,
                   kernels::KeyValueCache* cache = nullptr) {
    LlamaBlock& wanted = blocks[static_cast<std::size_t>(index)];
    RotaryTables& tables = wanted.is_local ? local_rotary : rotary;
    tables.move_to(x.device());
    return wanted(x, options,
                  cache == nullptr ? tables : tables.part(cache->positions(), x.size(1)),
                  activations, context, 1 + 3 * index, cache);
  }

  at::Tensor norm_last(const at::Tensor& x, at::ScalarType out,
                       const ForwardContext& context) const {
    return last_norm(x, out, context);
  }

  at::Tensor head(const at::Tensor& x, const ForwardContext& context) const {
    // The norm keeps its input and not its result, whose memory the loss's gradient may take.
    return norm_last(x, activations, context);
  }

  std::vector<at::Tensor> embed_weights() const { return {embedding}; }
  std::vector<at::Tensor> head_weights() const { return output.weights(); }
};

Llama::Llama(const LlamaOptions& options, Initialisation initialisation)
    : impl_(std::make_unique<Impl>(options, initialisation)) {}

Llama::~Llama() = default;

NamedParameters Llama::parameters() const { return impl_->parameters; }

std::vector<std::string> Llama::shared_parameters() const {
  if (!impl_->options.variant.tied_head) return {};
  return {"model.embed_tokens.weight"};  // also the head's weight
}

const LlamaOptions& Llama::options() const { return impl_->options; }

std::vector<Segment> Llama::segments() {
  return transformer_segments(impl_.get(), impl_->options.layers);
}

std::vector<LossHead> Llama::losses() { return {token_loss(&impl_->output)}; }

std::optional<std::vector<at::Tensor>> Llama::prepare_recorded_pass() {
  if (impl_->options.dropout > 0) return std::nullopt;
  std::optional<std::vector<at::Tensor>> operands = models::prepare_recorded_pass(
      projections_of(impl_->blocks), impl_->output, impl_->activations);
  if (!operands) return operands;
  for (RotaryTables* tables : {&impl_->rotary, &impl_->local_rotary}) {
    tables->move_to(impl_->embedding.device());
    operands->insert(operands->end(), {tables->cosines, tables->sines});
  }
  return operands;
}

at::Tensor Llama::next_token_logits(const at::Tensor& ids) {
  return models::next_token_logits(*impl_, impl_->options.layers, ids, impl_->options.context,
                                   "Llama next token");
}

at::Tensor Llama::sequence_log_probabilities(const batch::MicroBatch& micro) {
  return models::sequence_log_probabilities(*this, impl_->output, micro);
}

DecodingCache Llama::make_decoding_cache() const {
  const LlamaOptions& o = impl_->options;
  DecodingCache cache;
  for (std::int64_t i = 0; i < o.layers; ++i)
    cache.layers.emplace_back(
        kernels::KeyValueCache::Shape{.kv_heads = o.kv_heads,
                                      .width = o.head_width,
                                      .most_positions = o.context,
                                      .window = o.variant.is_local(i) ? o.variant.window : 0,
                                      .dtype = impl_->activations});
  return cache;
}

at::Tensor Llama::decode(const at::Tensor& ids, DecodingCache& cache) {
  return models::decode(*impl_, impl_->options.layers, ids, cache, impl_->options.context,
                        "Llama decode");
}

std::int64_t Llama::packed_weight_bytes() const {
  return models::packed_weight_bytes(projections_of(impl_->blocks), impl_->activations);
}

void Llama::pack_weights(bool wanted) {
  models::pack_weights(projections_of(impl_->blocks), wanted);
}

void Llama::restart_adapters() { models::restart_adapters(projections_of(impl_->blocks)); }

NamedParameters Llama::file_tensors() const { return detached(parameters()); }

void Llama::load_file_tensors(const StoredTensors& tensors, const std::string& origin) {
  load_llama_tensors(*this, tensors, origin);
}

std::int64_t Llama::flops_per_sample() const {
  const LlamaOptions& o = impl_->options;
  const std::int64_t of_table =
      (impl_->embedding.requires_grad() ? 6 : 4) * impl_->embedding.numel();
  const std::int64_t looked_up = o.variant.tied_head ? 0 : of_table;
  std::int64_t all_pairs = 0;
  for (std::int64_t i = 0; i < o.layers; ++i)
    all_pairs += pairs(o.context, o.variant.is_local(i) ? o.variant.window : 0);
  return o.context * (operations_of_products(parameters()) - looked_up) +
         12 * o.heads * o.head_width * all_pairs;
}

}  // namespace accrue::models
