#include "accrue/models/gpt2.h"

#include <cmath>

#include "accrue/core/error.h"
#include "accrue/kernels/cross_entropy.h"
#include "accrue/models/gpt2_io.h"
#include "kernels/operations.h"
#include "models/layers/loss_terms.h"
#include "models/layers/transformer_block.h"

namespace accrue::models {
namespace {

constexpr double gpt2_norm_eps = 1e-5;
constexpr double most_parameters = 1e12;
// Kernels are specialised by shape, and the shape grows with every generated token: lengths are
// rounded up to this, so that few shapes occur.
constexpr std::int64_t length_step = 64;

void check_at_least_one(const char* key, std::int64_t value) {
  if (value < 1)
    throw usage_error("make a GPT-2", std::string("model.") + key + " of at least 1",
                      std::to_string(value), std::string("another model.") + key);
}

void check(const Gpt2Options& options) {
  check_at_least_one("layers", options.layers);
  check_at_least_one("heads", options.heads);
  check_at_least_one("width", options.width);
  check_at_least_one("context", options.context);
  check_at_least_one("vocab", options.vocab);
  if (options.width % options.heads != 0) {
    const std::int64_t below = options.width / options.heads * options.heads;
    throw usage_error(
        "make a GPT-2",
        "a model.width that is a multiple of model.heads (" + std::to_string(options.heads) + ')',
        std::to_string(options.width), "model.width=" + std::to_string(below + options.heads));
  }
  if (!(options.dropout >= 0 && options.dropout < 1))
    throw usage_error("make a GPT-2", "a model.dropout in [0, 1)", std::to_string(options.dropout),
                      "model.dropout=0.1");
  const auto width = static_cast<double>(options.width);
  const double parameters =
      width * (static_cast<double>(options.vocab) + static_cast<double>(options.context) +
               static_cast<double>(options.layers) * 12 * width);
  if (parameters > most_parameters)
    throw usage_error("make a GPT-2", "at most 10^12 parameters",
                      std::to_string(parameters) + " of them",
                      "smaller model.layers, model.width, model.context or model.vocab");
}

at::ScalarType master_dtype(Compute compute) {
  return compute == Compute::fp64 ? at::kDouble : at::kFloat;
}

at::ScalarType compute_dtype(Compute compute) {
  return compute == Compute::bf16 ? at::kBFloat16 : master_dtype(compute);
}

TransformerBlock make_block(ParameterBuilder& builder, const Gpt2Options& options,
                            std::int64_t index) {
  const std::string name = "transformer.h." + std::to_string(index);
  const std::int64_t width = options.width;
  const double residual_deviation =
      initial_deviation / std::sqrt(2.0 * static_cast<double>(options.layers));
  // Braces evaluate in order, so the parameters are registered in forward order.
  return {
      make_norm(builder, name + ".ln_1", width, gpt2_norm_eps),
      make_projection(builder, name + ".attn.c_attn", width, 3 * width, initial_deviation),
      make_projection(builder, name + ".attn.c_proj", width, width, residual_deviation),
      make_norm(builder, name + ".ln_2", width, gpt2_norm_eps),
      make_projection(builder, name + ".mlp.c_fc", width, 4 * width, initial_deviation),
      make_projection(builder, name + ".mlp.c_proj", 4 * width, width, residual_deviation),
  };
}

}  // namespace

struct Gpt2::Impl {
  Gpt2Options options;
  at::ScalarType activations;  ///< dtype of GEMM inputs; the residual stream has the masters'
  at::Tensor wte, wpe;
  kernels::PreparedWeight prepared_wte;
  std::vector<TransformerBlock> blocks;
  LayerNorm ln_f;
  NamedParameters parameters;

  Impl(const Gpt2Options& wanted, Initialisation initialisation)
      : options(wanted), activations(compute_dtype(wanted.compute)) {
    ParameterBuilder builder(master_dtype(options.compute));
    wte =
        builder.normal("transformer.wte.weight", {options.vocab, options.width}, initial_deviation);
    wpe = builder.normal("transformer.wpe.weight", {options.context, options.width},
                         initial_deviation);
    for (std::int64_t i = 0; i < options.layers; ++i)
      blocks.push_back(make_block(builder, options, i));
    ln_f = make_norm(builder, "transformer.ln_f", options.width, gpt2_norm_eps);
    if (initialisation == Initialisation::random) builder.draw(options.seed);
    parameters = builder.take();
  }

  /// The samples of a packed row are checked where they are embedded.
  void check_ids(const at::Tensor& ids, bool packed) const {
    if (!ids.defined() || ids.dim() != 2 || ids.scalar_type() != at::kLong ||
        (!packed && ids.size(1) > options.context))
      throw usage_error("GPT-2 forward",
                        "int64 token ids [B, T] with T <= " + std::to_string(options.context) +
                            " (model.context)",
                        ids.defined() ? c10::str(ids.scalar_type(), ' ', ids.sizes()) : "no tensor",
                        "shorter samples or a larger context");
  }

  at::Tensor embed(const at::Tensor& ids, const ForwardContext& context) const {
    check_ids(ids, !context.spans.empty());
    const kernels::Operations& kernels = kernels::operations_of(context);
    return kernels.dropout(kernels.embed_tokens(ids, wte, wpe, context.spans), options.dropout,
                           context, 0);
  }

  at::Tensor block(std::int64_t index, const at::Tensor& x, const ForwardContext& context) {
    const BlockOptions common{
        .heads = options.heads, .dropout = options.dropout, .activations = activations};
    return blocks[static_cast<std::size_t>(index)](x, common, context, 1 + 3 * index);
  }

  at::Tensor head(const at::Tensor& x, const ForwardContext& context) const {
    return ln_f(x, activations, context);
  }

  Loss loss(const at::Tensor& hidden, const batch::MicroBatch& micro, const ForwardContext& context,
            double gradient_scale) {
    const kernels::CrossEntropyOptions terms = loss_terms(options.loss, micro, context);
    const kernels::Operations& kernels = kernels::operations_of(context);
    // The final norm keeps its input and not its result, whose memory the gradient may take.
    if (options.fused_loss)
      return kernels.linear_cross_entropy(hidden, wte, micro.targets, prepared_wte,
                                          {.loss = terms,
                                           .gradient_scale = gradient_scale,
                                           .overwrite_hidden = context.last_reader});
    return kernels::cross_entropy(kernels.linear(hidden, wte, {}, prepared_wte, {}), micro.targets,
                                  terms);
  }
};

Gpt2::Gpt2(const Gpt2Options& options, Initialisation initialisation) {
  check(options);
  impl_ = std::make_unique<Impl>(options, initialisation);
}

Gpt2::~Gpt2() = default;

NamedParameters Gpt2::parameters() const { return impl_->parameters; }

/// The embedding's parameter is the head's, too.
std::vector<std::string> Gpt2::shared_parameters() const { return {"transformer.wte.weight"}; }

const Gpt2Options& Gpt2::options() const { return impl_->options; }

std::vector<Segment> Gpt2::segments() {
  return transformer_segments(impl_.get(), impl_->options.layers);
}

std::vector<LossHead> Gpt2::losses() {
  Impl* model = impl_.get();
  return {{"cross_entropy",
           [model](const Activations& hidden, const batch::MicroBatch& micro,
                   const ForwardContext& context, double gradient_scale) {
             return model->loss(hidden.at(0), micro, context, gradient_scale);
           },
           [](const batch::MicroBatch& micro) {
             return kernels::label_weight(micro.targets, micro.weights);
           }}};
}

at::Tensor Gpt2::next_token_logits(const at::Tensor& ids) {
  const at::NoGradGuard no_grad;
  impl_->check_ids(ids, /*packed=*/false);
  const std::int64_t length = ids.size(1);
  if (length == 0) throw usage_error("GPT-2 next token", "at least one token", "none", "a prompt");
  const std::int64_t padded =
      std::min(impl_->options.context, (length + length_step - 1) / length_step * length_step);
  const ForwardContext context{.training = false, .sample_ids = {}};
  // Attention is causal, so what stands behind the last token does not reach its logits.
  at::Tensor x = impl_->embed(at::constant_pad_nd(ids, {0, padded - length}), context);
  for (std::int64_t i = 0; i < impl_->options.layers; ++i) x = impl_->block(i, x, context);
  const at::Tensor hidden =
      impl_->ln_f(x.select(1, length - 1).contiguous(), impl_->wte.scalar_type(), context);
  return kernels::operations_of(context).linear(hidden, impl_->wte, {}, impl_->prepared_wte, {});
}

std::int64_t Gpt2::flops_per_sample() const { return options().context * flops_per_token(); }

std::int64_t Gpt2::packed_weight_bytes() const {
  return models::packed_weight_bytes(impl_->blocks, impl_->activations);
}

void Gpt2::pack_weights(bool wanted) { models::pack_weights(impl_->blocks, wanted); }

NamedParameters Gpt2::file_tensors() const { return to_hugging_face(parameters()); }

void Gpt2::load_file_tensors(const StoredTensors& tensors, const std::string& origin) {
  load_hugging_face(*this, tensors, origin);
}

std::int64_t Gpt2::flops_per_token() const {
  const Gpt2Options& options = impl_->options;
  const std::int64_t multiplied = parameter_count(*this) - impl_->wpe.numel();
  return 6 * multiplied + 6 * options.layers * options.width * (options.context + 1);
}

}  // namespace accrue::models
